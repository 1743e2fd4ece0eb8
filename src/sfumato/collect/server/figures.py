from msgspec import Struct
class Figures(Struct):
    reports: int
