// Pages that are opened as files may start no worker, and search runs in one: here it runs in a
// hidden frame. (What the builder brings for that would be loaded from another host.)
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.body.appendChild(document.createElement("iframe"));
      this.frame.hidden = true;
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => {
        setTimeout(() => this.onmessage?.({ data: structuredClone(data) }));
      };
      const script = inside.document.createElement("script");
      this.ready = new Promise((resolve) => { script.onload = resolve; });
      script.src = url;
      inside.document.body.append(script);
    }
    postMessage(sent) {
      const data = structuredClone(sent);
      this.ready.then(() => this.frame.contentWindow?.onmessage({ data }));
    }
    terminate() { this.frame.remove(); }
  };
}
