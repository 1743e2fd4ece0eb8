def index_page(*a): return ""
