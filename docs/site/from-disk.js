// Browsers let no page that is read from a disk start the search's worker: there its field would wait for ever.
if (location.protocol === "file:") {
  document.querySelectorAll("#rtd-search-form").forEach((form) => { form.hidden = true; });
}
