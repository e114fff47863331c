// Sets the theme before the first paint. A file of its own: inline scripts are not allowed by the content security policy.
(() => {
  try {
    var look = JSON.parse(localStorage.getItem("parawork.look") || "{}");
    var root = document.documentElement;
    if (look.theme === "dark" || look.theme === "light") root.dataset.theme = look.theme;
    if (look.density === "compact") root.dataset.density = "compact";
    if (look.terminalTheme === "dark" || look.terminalTheme === "light") root.dataset.terminalTheme = look.terminalTheme;
  } catch {
    // no storage: the system's theme holds
  }
})();
