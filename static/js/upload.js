// Sends a file of rows shard by shard, then the images its rows name, with progress; chosen again after a reload, it goes on
// where it was. An archive goes at once.
(() => {
  "use strict";
  const ROUTES = "/v1/registry/dataset-uploads", IMAGES = "/v1/registry/images", DATASETS = "/v1/registry/datasets";
  const TRIES = 8, ASKED = 500;
  const KEPT = "Choose the same files again later: what was sent is kept for seven days.";
  const wait = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

  class Refusal extends Error {
    constructor(document) { super(document.detail); this.document = document; }
  }

  const isArchive = async (file) => {
    try {
      return String.fromCharCode(...new Uint8Array(await file.slice(0, 4).arrayBuffer())) === "PK\x03\x04";
    } catch {
      throw new Refusal({ detail: `${file.name} changed or cannot be read.`, hint: "Choose it again." });
    }
  };

  // One request; a box that does not answer is asked again, because what it holds already is not lost.
  const ask = async (form, method, path, body, progress = () => {}, hint = KEPT) => {
    for (let tried = 0; ; tried++) {
      const answer = await new Promise((done) => {
        const request = new XMLHttpRequest();
        request.open(method, path);
        request.setRequestHeader("X-CSRFToken", form.querySelector("[name=csrfmiddlewaretoken]").value);
        if (!(body instanceof Blob)) request.setRequestHeader("Content-Type", "application/json");
        request.upload.onprogress = (event) => progress(event.loaded);
        request.onload = () => done(request);
        request.onerror = () => done(null);
        request.send(body instanceof Blob ? body : JSON.stringify(body));
      });
      let document = null;
      try { document = answer && JSON.parse(answer.responseText); } catch { /* no document: something before the box answered */ }
      if (answer && answer.status < 400 && document) return document;
      if (answer && answer.status < 500 || document && tried >= TRIES) throw new Refusal(document || { detail: `The box answered ${answer.status}.` });
      if (tried >= TRIES) throw new Refusal({ detail: "The box does not answer.", hint });
      say(form, "The box does not answer; trying again…");
      await wait(Math.min(30, 0.5 * 2 ** tried));
    }
  };

  const say = (form, words) => { form.querySelector("[data-upload-said]").textContent = words; };

  const show = (form, share) => {
    const bar = form.querySelector("[data-upload-bar]");
    bar.hidden = false;
    bar.setAttribute("aria-valuenow", Math.floor(share * 100));
    bar.firstElementChild.style.width = `${share * 100}%`;
  };

  // One task of the worker; what it refuses is a refusal of the upload.
  const work = (form, task) => new Promise((done, failed) => {
    const worker = new Worker(form.dataset.worker);
    const end = (settle, value) => { worker.terminate(); settle(value); };
    worker.onerror = () => end(failed, new Refusal({ detail: "The browser could not read the files." }));
    worker.onmessage = ({ data }) => {
      if (data.share !== undefined) show(form, data.share);
      else if (data.failure) end(failed, new Refusal(data.failure));
      else end(done, data.done);
    };
    worker.postMessage(task);
  });

  const stated = (form) => Object.fromEntries(["reference", "alias", "description"].map((name) => [name, form.elements[name].value.trim()]));

  const uploadRows = async (form, file) => {
    say(form, "Reading the file…");
    const shards = await work(form, { task: "shards", file, most: Number(form.dataset.shardBytes) });
    const opened = await ask(form, "POST", ROUTES, { ...stated(form), shards: shards.map((shard) => ({ sha256: shard.sha256, bytes: shard.end - shard.start })) });
    await sendShards(form, file, shards, opened);
    const { namesImages } = opened.missing.length ? await ask(form, "GET", `${ROUTES}/${opened.id}`) : opened;
    const images = namesImages ? await sendImages(form, file) : "";
    say(form, "Registering…");
    return ask(form, "POST", `${ROUTES}/${opened.id}/complete`, { images });
  };

  const sendShards = async (form, file, shards, opened) => {
    const missing = new Set(opened.missing);
    let sent = 0;
    for (const [place, item] of opened.shards.entries()) {
      if (missing.has(item.path)) {
        const before = sent, words = shards.length > 1 ? `Sending shard ${place + 1} of ${shards.length}…` : "Sending…";
        say(form, words);
        const progress = (loaded) => { say(form, loaded < item.bytes ? words : "Checking the rows…"); show(form, (before + loaded) / file.size); };
        try {
          await ask(form, "PUT", `${ROUTES}/${opened.id}/shards/${item.path}`, file.slice(shards[place].start, shards[place].end), progress);
        } catch (error) {
          throw await withLinesOf(form, file, shards[place].start, error);
        }
      }
      sent += item.bytes;
      show(form, sent / file.size);
    }
  };

  // The refusal of a shard with its lines named as those of the file it was cut from, as the command names them.
  const withLinesOf = async (form, file, start, error) => {
    if (!(error instanceof Refusal) || !start || !error.document.problems) return error;
    say(form, "Counting the lines…");
    const before = await work(form, { task: "lines", file, end: start });
    const problems = error.document.problems.map((problem) => ({ ...problem, path: problem.path.replace(/^line (\d+) of examples-\d+\.jsonl/, (place, line) => `line ${before + Number(line)} (${place})`) }));
    return new Refusal({ ...error.document, problems });
  };

  // The files chosen as images, each with the path it has in the chosen folder.
  const chosenImages = (form) => [...form.querySelectorAll("[data-upload-images]")].flatMap((input) => [...input.files]).map((file) => ({ file, path: file.webkitRelativePath || file.name }));

  // Sends the images that the rows name and the box lacks, then the list of them all; gives the list's digest.
  const sendImages = async (form, file) => {
    say(form, "Reading the images…");
    const images = await work(form, { task: "images", file, given: chosenImages(form) });
    const missing = await lacking(form, images), total = missing.reduce((sum, image) => sum + image.file.size, 0);
    let sent = 0;
    for (const [place, image] of missing.entries()) {
      say(form, `Sending image ${place + 1} of ${missing.length}…`);
      await sendImage(form, image, (loaded) => show(form, (sent + Math.min(loaded, image.file.size)) / (total || 1)));
      sent += image.file.size;
    }
    const lines = images.map(({ path, sha256 }) => `${JSON.stringify({ path, sha256 })}\n`);
    return (await ask(form, "POST", `${IMAGES}/manifests`, new Blob(lines))).manifest;
  };

  const sendImage = async (form, image, progress) => {
    try {
      await ask(form, "POST", IMAGES, image.file, progress);
    } catch (error) {
      if (error instanceof Refusal) error.document = { ...error.document, detail: `${image.path}: ${error.document.detail}` };
      throw error;
    }
  };

  // The images that the box lacks, each of the same bytes once.
  const lacking = async (form, images) => {
    const bySha256 = new Map(images.map((image) => [image.sha256, image])), known = [...bySha256.keys()], missing = [];
    for (let at = 0; at < known.length; at += ASKED) {
      const found = await ask(form, "POST", `${IMAGES}/missing`, { sha256s: known.slice(at, at + ASKED) });
      missing.push(...found.missing.map((sha256) => bySha256.get(sha256)));
    }
    return missing;
  };

  const uploadArchive = async (form, file) => {
    const { reference, ...more } = stated(form), most = Number(form.dataset.wholeBytes);
    if (file.size > most) throw new Refusal({ detail: `${file.name} has ${file.size.toLocaleString("en")} bytes; a ZIP has at most ${most.toLocaleString("en")}.`, hint: "Register its contents as several datasets." });
    const path = reference.split("/").map(encodeURIComponent).join("/");
    const progress = (loaded) => { say(form, loaded < file.size ? "Sending…" : "Checking the archive…"); show(form, Math.min(1, loaded / file.size)); };
    show(form, 0);
    return ask(form, "POST", `${DATASETS}/${path}/versions?${new URLSearchParams(more)}`, file, progress, "A ZIP is sent at once, so nothing of it was kept: choose it again later, and it is sent anew.");
  };

  const element = (name, text, className = "") => Object.assign(document.createElement(name), { textContent: text, className });

  // A refusal beside the form, in the words of the API.
  const refuse = (form, { detail, hint = "", problems = [], moreBadLines = 0, more = moreBadLines ? `And ${moreBadLines} more bad lines.` : "" }) => {
    const note = element("div", "", "note bad"), body = element("div", "");
    note.setAttribute("role", "alert");
    body.append(element("b", detail), ` ${hint}`);
    const list = element("ul", "", "stack tight");
    for (const problem of problems) {
      const item = element("li", "");
      item.append(element("code", problem.path), ` ${problem.message}`, element("div", problem.hint || "", "soft small pre"));
      list.append(item);
    }
    if (problems.length) body.append(list);
    if (more) body.append(element("p", more));
    note.append(body);
    document.querySelector("[data-upload-refused]").replaceChildren(note);
    say(form, "");
    form.querySelector("[data-upload-bar]").hidden = true;
  };

  const leaving = (event) => event.preventDefault();

  const run = async (form, file) => {
    const button = form.querySelector("button.primary");
    button.disabled = true;
    document.querySelector("[data-upload-refused]").replaceChildren();
    addEventListener("beforeunload", leaving);
    try {
      const made = await (await isArchive(file) ? uploadArchive : uploadRows)(form, file);
      removeEventListener("beforeunload", leaving);
      location.assign(`?done=${made.versionId}${made.isNew ? "&new" : ""}`);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refuse(form, error.document);
    } finally {
      removeEventListener("beforeunload", leaving);
      button.disabled = false;
    }
  };

  // A browser without workers takes the plain form.
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-shard-bytes]"), file = form?.elements.file.files[0];
    if (!file || !window.Worker) return;
    event.preventDefault();
    event.stopPropagation();
    if (!form.querySelector("button.primary").disabled) run(form, file);
  }, { capture: true });
})();
