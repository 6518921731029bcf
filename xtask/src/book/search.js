// Searches the sections of all pages for words, each of which may be a part of one.
(() => {
  const MOST = 30;
  const input = document.getElementById("search");
  const found = document.getElementById("found");
  const contents = document.getElementById("contents");
  const root = document.body.dataset.root;
  const sections = INDEX.map(([link, page, heading, text]) => ({
    link, page, heading, text, low: { heading: `${page} ${heading}`.toLowerCase(), text: text.toLowerCase() },
  }));

  // Words in headings count more than words in the text; 0: a word is missing.
  const score = (section, words) => {
    let sum = 0;
    for (const word of words) {
      const inHeading = section.low.heading.includes(word);
      const inText = section.low.text.split(word).length - 1;
      if (!inHeading && inText === 0) return 0;
      sum += (inHeading ? 20 : 0) + Math.min(inText, 10);
    }
    return sum;
  };

  const excerpt = (section, word) => {
    const at = Math.max(section.low.text.indexOf(word), 0);
    const from = Math.max(at - 40, 0);
    return `${from > 0 ? "…" : ""}${section.text.slice(from, at + 90)}…`;
  };

  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
    contents.hidden = words.length > 0;
    found.replaceChildren();
    if (words.length === 0) return;
    const hits = sections.map((section) => [score(section, words), section]);
    const best = hits.filter(([points]) => points > 0).sort((a, b) => b[0] - a[0]);
    for (const [, section] of best.slice(0, MOST)) {
      const link = document.createElement("a");
      link.href = root + section.link;
      link.textContent = section.page === section.heading ? section.page : `${section.page}: ${section.heading}`;
      const text = document.createElement("p");
      text.textContent = excerpt(section, words[0]);
      found.append(link, text);
    }
    if (best.length === 0) found.textContent = "no section has all of these words";
  };

  input.addEventListener("input", show);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    }
  });
})();
