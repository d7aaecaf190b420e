// Makes a complete page more pleasant: answers that follow the form, links and texts to copy.
(() => {
  "use strict";

  const PAUSE_MS = 400;
  const HTML = { Accept: "text/html" };

  // The answer beside the form, looked up again as the inputs change.
  function follow(form, answer) {
    let waiting = 0;
    let asked = 0;

    const status = document.createElement("p");
    status.className = "hint status";
    status.setAttribute("role", "status");
    form.querySelector(".buttons").append(status);

    // A choice that the form starts with says nothing in an address.
    function isOpen(name, value) {
      const control = form.elements[name];
      return !value.trim() || (control.options && control.options[0].value === value);
    }

    function query() {
      const filled = [...new FormData(form)].filter(([name, value]) => typeof value === "string" && !isOpen(name, value));
      return new URLSearchParams(filled).toString();
    }

    function placeErrors(page) {
      for (const field of form.querySelectorAll(".field")) {
        const control = field.matches("fieldset") ? field : field.querySelector("input, select, textarea");
        const fresh = control?.id ? page.getElementById(control.id) : null;
        if (!fresh) continue;
        for (const name of ["aria-invalid", "aria-describedby"]) {
          if (fresh.hasAttribute(name)) control.setAttribute(name, fresh.getAttribute(name));
          else control.removeAttribute(name);
        }
        for (const part of ["error", "now"]) {
          const id = `${control.id}-${part}`;
          document.getElementById(id)?.remove();
          const text = page.getElementById(id);
          if (text) (field.matches("fieldset") ? field.querySelector("legend") : control).after(text);
        }
      }
    }

    async function ask(address, options, shown) {
      const turn = ++asked;
      answer.setAttribute("aria-busy", "true");
      status.textContent = answer.dataset.waiting;
      try {
        const response = await fetch(address, { headers: HTML, ...options });
        const text = await response.text();
        if (turn !== asked) return;
        const page = new DOMParser().parseFromString(text, "text/html");
        const fresh = page.getElementById("answer");
        if (!fresh) throw new Error(`status ${response.status}`);
        placeErrors(page);
        answer.replaceChildren(...fresh.childNodes);
        document.title = page.title;
        if (shown) history.replaceState(null, "", shown);
        status.textContent = response.ok ? answer.dataset.done : "";
        ready(answer);
      } catch {
        if (turn === asked) status.textContent = answer.dataset.failed;
      } finally {
        if (turn === asked) answer.setAttribute("aria-busy", "false");
      }
    }

    function hasConfig() {
      return form.elements.model_config.value.trim() !== "" || form.elements.config_file.files.length > 0;
    }

    function again() {
      clearTimeout(waiting);
      if (hasConfig()) {
        ask("/", { method: "POST", body: new FormData(form) }, null);
        return;
      }
      const asks = query();
      if (asks && form.elements.model_name.value + form.elements.model_size_b.value) ask(`/?${asks}`, {}, `/?${asks}`);
    }

    form.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(again, PAUSE_MS);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      again();
      answer.scrollIntoView({ block: "nearest" });
    });
    for (const name of ["dragover", "drop"]) {
      form.addEventListener(name, (event) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        if (name !== "drop") return;
        form.elements.config_file.files = event.dataTransfer.files;
        form.elements.config_file.closest("details").open = true;
        again();
      });
    }
  }

  // Figures that stand on a page of their own, brought in when their place comes into view.
  function bringFigures(place) {
    const seen = new IntersectionObserver(async (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      const response = await fetch(place.dataset.figures, { headers: HTML });
      if (!response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const figures = page.getElementById("figures");
      if (!figures) return;
      place.querySelector(".placed").replaceChildren(figures);
      place.dispatchEvent(new CustomEvent("shardwise:figures", { bubbles: true }));
    }, { rootMargin: "600px" });
    seen.observe(place);
  }

  async function copy(text, told, words) {
    await navigator.clipboard.writeText(text);
    const before = told.textContent;
    told.textContent = words;
    setTimeout(() => { told.textContent = before; }, 2000);
  }

  function ready(root) {
    for (const place of root.querySelectorAll("[data-figures]")) bringFigures(place);
    for (const link of root.querySelectorAll("[data-share]")) {
      link.addEventListener("click", (event) => {
        if (!navigator.clipboard) return;
        event.preventDefault();
        copy(link.href, link, link.dataset.copied);
      });
    }
    for (const block of root.querySelectorAll("[data-copy]")) {
      if (!navigator.clipboard) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "second copy";
      button.textContent = document.body.dataset.wordCopy;
      button.addEventListener("click", () => copy(block.textContent, button, document.body.dataset.wordCopied));
      block.before(button);
    }
  }

  const form = document.getElementById("question");
  const answer = document.getElementById("answer");
  if (form && answer) follow(form, answer);
  ready(document);
})();
