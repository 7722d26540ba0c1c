"""What a person sees of a problem, its optimum and a run: a summary, and its faces: terminal, figures and HTML."""
