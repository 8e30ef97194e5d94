// The upload form: leaves out what is never read, sends the rest in batches, then shows the job.
// Without this file the form still posts the chosen files in one request.
"use strict";

const MOST_FILES = 20;
const MOST_BYTES = 8 * 1024 * 1024;
const TRIES = 4;
const MOST_SHOWN = 100;

const data = (id) => JSON.parse(document.getElementById(id).textContent);
const format = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name].toLocaleString());
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

class Refused extends Error {}

class Upload {
  constructor(form) {
    this.form = form;
    this.rules = data("upload-rules");
    this.texts = data("upload-texts");
    this.files = form.querySelector("#id_file");
    this.folder = form.querySelector("#id_folder");
    this.source = form.querySelector("#id_source");
    this.said = form.querySelector("#upload-said");
    this.progress = form.querySelector("#upload-progress");
    this.button = form.querySelector("button[type=submit]");
    this.busy = false;
    this.firstSource = this.source.value;
    this.files.addEventListener("change", () => this.choose(this.files, this.folder));
    this.folder.addEventListener("change", () => this.choose(this.folder, this.files));
    form.addEventListener("submit", (event) => this.submit(event));
    window.addEventListener("beforeunload", (event) => this.busy && event.preventDefault());
    form.querySelector("#folder-field").hidden = !("webkitdirectory" in this.folder);
  }

  // Either files or a folder; a folder gives its name to a source that nobody has named.
  choose(chosen, other) {
    if (!chosen.files.length) return;
    other.value = "";
    const top = chosen.files[0].webkitRelativePath.split("/")[0];
    if (top && this.source.value === this.firstSource) {
      this.source.value = top.slice(0, 100);
      this.firstSource = this.source.value;
    }
    this.show();
  }

  // [{path, file}] to send and [{path, why}] left out.
  sorted() {
    const kept = [];
    const left = [];
    for (const file of [...this.folder.files, ...this.files.files]) {
      const path = file.webkitRelativePath.split("/").slice(1).join("/") || file.name;
      const why = this.why(path, file);
      if (why) left.push({ path, why });
      else kept.push({ path, file });
    }
    return { kept, left };
  }

  why(path, file) {
    const folders = path.split("/");
    const name = folders.pop();
    const { rules, texts } = this;
    const folder = folders.find((part) => rules.folders.includes(part));
    const dot = name.lastIndexOf(".");
    const type = dot > 0 ? name.slice(dot + 1).toLowerCase() : "";
    if (folder) return format(texts.folder, { name: folder });
    if (rules.files.includes(name)) return format(texts.file, { name });
    if (!rules.names.includes(name) && !rules.extensions.includes(type)) {
      return type ? format(texts.type, { name: type }) : texts.untyped;
    }
    if (file.size > rules.maxBytes) return format(texts.large, { name: rules.maxBytes });
    return file.size ? "" : texts.empty;
  }

  show() {
    const { kept, left } = this.sorted();
    this.form.querySelector("#upload-report").hidden = false;
    this.say(this.texts.chosen, { files: kept.length, skipped: left.length });
    const details = this.form.querySelector("#upload-left");
    details.hidden = !left.length;
    const rows = left.slice(0, MOST_SHOWN).map(({ path, why }) => row(path, why));
    if (left.length > MOST_SHOWN) rows.push(row("", format(this.texts.more, { name: left.length - MOST_SHOWN })));
    details.querySelector("ul").replaceChildren(...rows);
    return kept;
  }

  say(text, values = {}) {
    this.said.textContent = format(text, values);
  }

  async submit(event) {
    if (!this.files.files.length && !this.folder.files.length) return;
    event.preventDefault();
    if (this.busy) return;
    const kept = this.show();
    if (!kept.length) {
      this.say(this.texts.nothing);
      return;
    }
    this.busy = this.button.disabled = true;
    try {
      const page = await this.send(kept);
      this.say(this.texts.sent, { files: kept.length });
      this.files.value = this.folder.value = "";
      await window.htmx.ajax("GET", page, { target: "#job-place", swap: "innerHTML" });
      document.body.dispatchEvent(new Event("kb-counts-moved"));
    } catch (error) {
      this.say(this.texts.failed, { why: error.message });
    } finally {
      this.busy = this.button.disabled = false;
    }
  }

  async send(kept) {
    let answer = { upload: "" };
    let sent = 0;
    this.progress.hidden = false;
    this.progress.max = kept.length;
    for (const batch of batches(kept)) {
      this.progress.value = sent;
      this.say(this.texts.sending, { sent, files: kept.length });
      answer = await this.sendBatch(batch, { upload: answer.upload, first: sent, last: sent + batch.length === kept.length });
      sent += batch.length;
    }
    this.progress.value = sent;
    return answer.page;
  }

  // A batch that broke off is sent again: the server knows it by its number.
  async sendBatch(batch, { upload, first, last }) {
    const body = new FormData();
    body.append("csrfmiddlewaretoken", this.form.elements.csrfmiddlewaretoken.value);
    body.append("source", this.source.value);
    body.append("upload", upload);
    body.append("first", first);
    body.append("last", last ? "1" : "");
    for (const { path, file } of batch) {
      body.append("file", file, file.name);
      body.append("path", path);
    }
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.post(body);
      } catch (error) {
        if (error instanceof Refused || attempt === TRIES || !upload) throw error;
        this.say(this.texts.again);
        await wait(1000 * attempt);
      }
    }
  }

  async post(body) {
    let response;
    try {
      response = await fetch(this.form.action, { method: "POST", body, headers: { Accept: "application/json" } });
    } catch {
      throw new Error(this.texts.offline);
    }
    const isJson = (response.headers.get("Content-Type") || "").startsWith("application/json");
    const answer = isJson ? await response.json() : {};
    if (response.ok && answer.page) return answer;
    const why = typeof answer.error === "string" ? answer.error : `${response.status} ${response.statusText}`;
    throw response.status >= 500 ? new Error(why) : new Refused(why);
  }
}

function* batches(kept) {
  let batch = [];
  let bytes = 0;
  for (const item of kept) {
    if (batch.length === MOST_FILES || (batch.length && bytes + item.file.size > MOST_BYTES)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(item);
    bytes += item.file.size;
  }
  if (batch.length) yield batch;
}

function row(path, why) {
  const item = document.createElement("li");
  const code = document.createElement("code");
  const said = document.createElement("span");
  code.textContent = path;
  said.className = "why";
  said.textContent = why;
  item.append(code, said);
  return item;
}

const form = document.getElementById("upload");
if (form) new Upload(form);
