"""What a person sees of a problem, its optimum and a run: words, tables, maps and figures."""

from opdop.report.answer import Answer, Promise, answer
from opdop.report.learnt import Learnt
from opdop.report.maps import VisitMap
from opdop.report.plane import Plane, trace

__all__ = ["Answer", "Learnt", "Plane", "Promise", "VisitMap", "answer", "trace"]
