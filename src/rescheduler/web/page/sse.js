// Reads a text/event-stream from pieces of text, as the HTML standard says. Pure: `live.js` feeds it what arrives.
// Unlike EventSource it also tells of comment lines, which are how the server says that it is still there.

/** A reader: `feed(text)` returns the whole events that are complete now, as {event, data}. */
export class EventReader {
  #rest = "";
  #event = "";
  #data = [];

  feed(text) {
    const found = [];
    this.#rest += text;
    // A lone \r at the end may be the first half of \r\n: it waits for the next piece.
    const whole = this.#rest.endsWith("\r") ? this.#rest.slice(0, -1) : this.#rest;
    const lines = whole.split(/\r\n|\n|\r/);
    this.#rest = lines.pop() + this.#rest.slice(whole.length);
    for (const line of lines) {
      if (line !== "") this.#take(line);
      else if (this.#data.length > 0) {
        found.push({ event: this.#event || "message", data: this.#data.join("\n") });
        this.#event = "";
        this.#data = [];
      } else this.#event = "";
    }
    return found;
  }

  #take(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
  }
}
