// Keeps a dashboard up to date: asks every ten seconds whether the figures have changed, by their
// ETag, and loads the page again if so. Unticking the box stops it.

const SECONDS = 10;
const main = document.querySelector("main[data-figures]");
const fresh = document.querySelector("#fresh");
let seen = null;

async function look() {
  if (fresh?.checked && document.visibilityState === "visible" && !busy()) {
    const headers = seen ? { "if-none-match": seen } : {};
    // The page's own address may hold the token, which no address to fetch from may.
    const figures = location.origin + main.dataset.figures;
    const reply = await fetch(figures, { headers }).catch(() => null);
    const tag = reply?.headers.get("etag");
    if (reply?.status === 200 && seen && tag !== seen) location.reload();
    else if (tag) seen = tag;
  }
  setTimeout(look, SECONDS * 1000);
}

/** Whether someone is writing a question, which a new page would lose. */
function busy() {
  return document.activeElement instanceof HTMLTextAreaElement;
}

if (main) look();
