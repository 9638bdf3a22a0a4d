// Whatever scrolls sideways can be reached and scrolled from the keyboard.
function makeScrollersFocusable() {
  for (const box of document.querySelectorAll(".math-scroll, .bd-article table, .bd-article pre, .bd-article .output")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    } else {
      box.removeAttribute("tabindex");
    }
  }
}

window.addEventListener("load", makeScrollersFocusable);
window.addEventListener("resize", makeScrollersFocusable);
