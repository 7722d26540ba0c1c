"""The style sheet of a report: light, dark and printed, for wide and narrow screens; no font or file from elsewhere."""

from __future__ import annotations

from opdop.report.html.svg import style_sheet

_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main,header,footer{max-width:76rem;margin:0 auto;padding:0 1.5rem}
header{padding-top:3rem}
h1{font-size:2rem;line-height:1.2;margin:.2rem 0 .6rem;letter-spacing:-.015em;text-wrap:balance}
h2{font-size:1.45rem;line-height:1.25;margin:3.2rem 0 .8rem;letter-spacing:-.01em}
h3{font-size:1.05rem;margin:2.2rem 0 .6rem}
p,ul,dl{max-width:48rem}
.over{color:var(--soft);font-size:.85rem;font-weight:600;letter-spacing:.06em;text-transform:uppercase;margin:0}
.lead{font-size:1.12rem;color:var(--soft);margin:0 0 1.4rem}
.note{color:var(--soft);font-size:.9rem}
a{color:var(--link);text-decoration-thickness:1px;text-underline-offset:.15em}
a:focus-visible{outline:2px solid var(--link);outline-offset:2px}
nav ul{list-style:none;padding:0;margin:0;display:flex;flex-wrap:wrap;gap:.4rem .6rem;max-width:none}
nav a{display:inline-block;padding:.25rem .8rem;border:1px solid var(--line);border-radius:99rem;text-decoration:none;
background:var(--paper)}
nav a:hover{border-color:var(--link)}
.card{background:var(--paper);border:1px solid var(--line);border-radius:.7rem;padding:1.1rem 1.4rem;margin:1rem 0}
.cards{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,32rem),1fr))}
.cards .card{margin:0}
.card>h3{margin-top:.2rem}
.card p{margin:.5rem 0}
.card ul{margin:.4rem 0;padding-left:1.1rem}
.groups{list-style:none;padding:0;margin:.6rem 0 1.2rem;display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;max-width:none}
.groups svg{width:1.9rem;height:.6rem;vertical-align:middle;margin-right:.45rem}
.grid{display:grid;gap:1rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,25rem),1fr))}
.grid.totals,.grid.maps{grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr))}
figure{margin:0;padding:.9rem 1rem .8rem;background:var(--paper);border:1px solid var(--line);border-radius:.7rem;
break-inside:avoid;display:flex;flex-direction:column}
figcaption{margin-top:.5rem;color:var(--soft);font-size:.82rem;line-height:1.45}
svg.figure{display:block;width:100%;height:auto;overflow:visible}
svg.figure *{stroke-linejoin:round;stroke-linecap:butt}
svg.figure text,svg.figure tspan{font-family:"DejaVu Sans",Verdana,"Segoe UI","Helvetica Neue",Arial,sans-serif}
.scroll{overflow-x:auto;margin:.6rem 0 1rem}
table{border-collapse:collapse;font-size:.92rem;line-height:1.35}
th,td{padding:.42rem .9rem .42rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
thead th{font-weight:600;color:var(--soft);vertical-align:bottom;border-bottom:1.5px solid var(--strong)}
td.n,th.n{text-align:right;white-space:nowrap}
tbody th{font-weight:600;min-width:7.5rem}
td small{display:block;color:var(--soft);font-size:.82em}
tr.reference th,tr.reference td{color:var(--soft);font-weight:400}
.clear{font-weight:600;color:var(--good)}
.unclear{color:var(--soft)}
dl{margin:0;max-width:none;columns:2 24rem;column-gap:2.4rem}
dl>div{break-inside:avoid;margin-bottom:.8rem}
dt{font-weight:600}
dd{margin:0;color:var(--soft);font-size:.93rem}
code,pre{font:.85rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{background:var(--paper);border:1px solid var(--line);border-radius:.7rem;padding:.9rem 1.1rem;overflow-x:auto;
max-width:100%}
td code,li code{overflow-wrap:anywhere}
footer{padding-top:2rem;padding-bottom:3rem;color:var(--soft);font-size:.85rem}
@media (max-width:40rem){
body{font-size:15px}main,header,footer{padding-left:1rem;padding-right:1rem}header{padding-top:1.6rem}
h1{font-size:1.5rem}h2{margin-top:2.4rem}.card{padding:.9rem 1rem}figure{padding:.6rem .6rem .7rem}}
@media print{
@page{size:A4;margin:16mm 14mm}
body{font-size:9.5pt;background:#fff}main,header,footer{max-width:none;padding:0}header{padding-top:0}
nav{display:none}h1{font-size:19pt}h2{font-size:14pt;margin-top:8mm}h2,h3,h3+.note{break-after:avoid}
.grid{grid-template-columns:repeat(2,1fr);gap:4mm}.grid.totals,.grid.maps{grid-template-columns:repeat(3,1fr)}
section.problem{break-before:page}section.problem h2{margin-top:0}
figure,.card,pre{border-color:#ccc}tr,.cards .card,dl>div{break-inside:avoid}.cards{grid-template-columns:1fr}
.scroll{overflow:visible}
figcaption{font-size:7.5pt}table{font-size:8.5pt}th,td{padding:1mm 3mm 1mm 0}pre{white-space:pre-wrap;font-size:7.5pt}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}a{color:inherit;text-decoration:none}}
"""
_LIGHT = "--page:#F7F7F5;--soft:#5B6066;--line:#E1E2DF;--strong:#B9BCBB;--link:#005C99;--good:#00694D"
_DARK = "--page:#131517;--soft:#A6ACB3;--line:#30353A;--strong:#5A6067;--link:#7CC2F5;--good:#4FD0A5"


def css() -> str:
    """Return the whole style sheet."""
    light, dark = style_sheet()
    night = f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{_DARK};{dark}}}}}"
    return f":root{{color-scheme:light;{_LIGHT};{light}}}\n{night}{_RULES}"
