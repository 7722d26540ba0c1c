// Browsers refuse workers on pages that are opened from disk (file://), and the search of this site is one. There, run
// the worker's script in a hidden frame instead: the same messages, in the thread of the page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = frame.contentDocument.createElement("script")
      script.src = String(url)
      script.onload = () => {
        const waiting = this.waiting
        this.waiting = undefined
        waiting.forEach((data) => this.postMessage(data))
      }
      frame.contentDocument.body.append(script)
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
    }

    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
