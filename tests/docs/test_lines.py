"""No line of a page ends within what belongs together."""

from docs_build.printing import whole


def test_an_option_is_not_broken_behind_its_hyphens() -> None:
    inline, block, long = "<code>--seed</code>", "<pre><code>ls</code></pre>", "<code>%s</code>"
    marked = '<code class="short">--seed</code>'
    assert whole(inline + block + long % ("a " * 20)) == marked + block + long % ("a " * 20)
    words = "under γ = 19 at most 50 % or ± 2"
    kept = whole(f"<p>{words}</p><pre>{words}</pre>")
    assert kept == f"<p>under γ~=~19 at most 50~% or ±~2</p><pre>{words}</pre>".replace("~", "\xa0")
