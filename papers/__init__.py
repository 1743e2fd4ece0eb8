"""The papers' tables and figures, their numbers beside ours."""
