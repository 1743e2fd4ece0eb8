"""Renderers: text, HTML, JSON, Arrow and pictures of any `View`."""
