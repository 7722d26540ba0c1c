"""What a person sees of a problem and its optimum: words, tables, maps and figures."""

from opdop.report.answer import Answer, Promise, answer
from opdop.report.maps import VisitMap
from opdop.report.plane import Plane, trace

__all__ = ["Answer", "Plane", "Promise", "VisitMap", "answer", "trace"]
