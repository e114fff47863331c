package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/tools/browser/cdp"
)

const (
	loadPatience   = 15 * time.Second       // for a page that was opened to load
	settlePatience = 5 * time.Second        // for a page that an action leads to
	settleFirst    = 150 * time.Millisecond // for an action to lead anywhere
	actPatience    = 5 * time.Second        // for an element to be visible, still and free
	actEvery       = 100 * time.Millisecond
	maxCanvas      = 8000 // pixels of a side of a whole page's picture
)

// goTo opens an address in a tab, and waits until it has loaded, or for a while. A page that crashes is opened once more: Chromium itself
// crashes now and then when it opens its first page.
func (b *browser) goTo(ctx context.Context, t *tab, address string) error {
	address, err := allowed(address, b.place.Hello.Root)
	if err != nil {
		return err
	}
	crashed, err := b.navigate(ctx, t, address)
	if err == nil && crashed {
		_, err = b.navigate(ctx, t, address)
	}
	return err
}

func (b *browser) navigate(ctx context.Context, t *tab, address string) (crashed bool, err error) {
	b.mu.Lock()
	t.crashed = false
	before := t.documents
	b.mu.Unlock()
	var got struct {
		Loader string `json:"loaderId"`
		Error  string `json:"errorText"`
	}
	if err := b.call(ctx, t.session, "Page.navigate", map[string]any{"url": address}, &got); err != nil {
		return false, err
	}
	if got.Loader != "" { // otherwise the same document, another fragment
		b.await(ctx, t, loadPatience, func() bool { return t.documents != before && !t.loading || t.crashed || got.Error != "" })
	}
	b.mu.Lock()
	crashed = t.crashed
	b.mu.Unlock()
	if got.Error != "" && !crashed {
		return false, fault.New(fault.Unavailable, "browser_page_failed", "The page %.200q could not be opened: %s.%s", address, clean(got.Error, 100), reachHint(got.Error))
	}
	return crashed, nil
}

// reachHint says what an error of the network usually means here.
func reachHint(text string) string {
	switch {
	case strings.Contains(text, "TUNNEL_CONNECTION_FAILED"), strings.Contains(text, "PROXY"):
		return " The network rules of this workspace do not allow it, or the host does not answer."
	case strings.Contains(text, "CONNECTION_REFUSED"):
		return " No program listens there."
	case strings.Contains(text, "ERR_ABORTED"):
		return " It is a download, or has no contents. Otherwise close the browser with browser_close, and open the page again."
	}
	return ""
}

// await waits until a condition of a tab holds, which is asked under mu at each of its changes.
func (b *browser) await(ctx context.Context, t *tab, most time.Duration, holds func() bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		b.mu.Lock()
		done, changed := holds(), t.changed
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-b.conn.Done():
			return
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// settle waits for a page to which an action may have led.
func (b *browser) settle(ctx context.Context, t *tab) {
	tasks.Sleep(ctx, settleFirst)
	b.await(ctx, t, settlePatience, func() bool { return !t.loading || t.crashed })
}

// ready opens a page that crashed again.
func (b *browser) ready(ctx context.Context, t *tab) error {
	b.mu.Lock()
	crashed, address := t.crashed, t.address
	b.mu.Unlock()
	switch {
	case !crashed:
		return nil
	case address == "":
		return fault.New(fault.Conflict, "browser_page_crashed", "The page crashed, and its address is too long to open it again. Open one: browser_open.")
	}
	if err := b.goTo(ctx, t, address); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.crashed {
		return fault.New(fault.Conflict, "browser_page_crashed", "The page crashed, and again when it was opened. Open another one: browser_open.")
	}
	return nil
}

type point struct{ x, y float64 }

// where finds the middle of an element, once it is visible, does not move and is not covered.
func (b *browser) where(ctx context.Context, t *tab, e element) (point, error) {
	ctx, cancel := context.WithTimeout(ctx, actPatience)
	defer cancel()
	var last point
	var why error
	for try := 0; ; try++ {
		inside, err := b.middle(ctx, e)
		at := inside
		if err == nil {
			at, err = b.inPage(ctx, t, e, inside, try > 0)
		}
		if err == nil && try > 0 && at == last {
			if err = b.uncovered(ctx, e, inside); err == nil {
				return at, nil
			}
		}
		if err != nil && ctx.Err() == nil {
			why = err
		}
		if fault.CodeOf(why) == "browser_ref_stale" || fault.CodeOf(why) == "browser_ended" {
			return point{}, why
		}
		last = at
		wait := actEvery
		if try == 0 {
			wait = 20 * time.Millisecond
		}
		if !tasks.Sleep(ctx, wait) {
			if why != nil {
				return point{}, why
			}
			return point{}, fault.New(fault.Conflict, "browser_element_moves", "The element does not stop moving, or the page does not react. Try again in a moment.")
		}
	}
}

// inPage is a point of an element in the page's coordinates. With check it refuses an element of a frame that something covers there.
func (b *browser) inPage(ctx context.Context, t *tab, e element, at point, check bool) (point, error) {
	for range maxFrames {
		owner, corner, ok, err := b.around(ctx, t, e)
		if err != nil || !ok {
			return at, err
		}
		e, at = owner, point{at.x + corner.x, at.y + corner.y}
		if check {
			if err := b.uncovered(ctx, e, at); err != nil {
				return at, err
			}
		}
	}
	return at, errStale() // frames that are inside each other
}

// middle is the middle of an element, in the coordinates of its session.
func (b *browser) middle(ctx context.Context, e element) (point, error) {
	if err := b.call(ctx, e.session, "DOM.scrollIntoViewIfNeeded", map[string]any{"backendNodeId": e.node}, nil); err != nil && fault.CodeOf(staleError(err)) == "browser_ref_stale" {
		return point{}, staleError(err)
	}
	var got struct {
		Quads [][]float64 `json:"quads"`
	}
	err := b.call(ctx, e.session, "DOM.getContentQuads", map[string]any{"backendNodeId": e.node}, &got)
	if err != nil {
		if err = staleError(err); fault.CodeOf(err) == "browser_ref_stale" {
			return point{}, err
		}
	}
	for _, q := range got.Quads {
		if len(q) != 8 {
			continue
		}
		area := 0.0
		for i := range 4 {
			j := (i + 1) % 4
			area += q[2*i]*q[2*j+1] - q[2*j]*q[2*i+1]
		}
		if area > 1 || area < -1 {
			return point{(q[0] + q[2] + q[4] + q[6]) / 4, (q[1] + q[3] + q[5] + q[7]) / 4}, nil
		}
	}
	return point{}, fault.New(fault.Conflict, "browser_element_hidden", "The element is not visible.")
}

// onElement calls a JavaScript function with an element as this.
func (b *browser) onElement(ctx context.Context, e element, function string, result any, args ...any) error {
	var object struct {
		Object struct {
			ID string `json:"objectId"`
		} `json:"object"`
	}
	if err := b.call(ctx, e.session, "DOM.resolveNode", map[string]any{"backendNodeId": e.node, "objectGroup": "parawork"}, &object); err != nil {
		return staleError(err)
	}
	type value struct {
		Value any `json:"value"`
	}
	values := make([]value, len(args))
	for i, a := range args {
		values[i].Value = a
	}
	var got struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	err := b.call(ctx, e.session, "Runtime.callFunctionOn", map[string]any{"objectId": object.Object.ID, "functionDeclaration": function, "arguments": values, "returnByValue": true, "userGesture": true}, &got)
	b.conn.Post(e.session, "Runtime.releaseObjectGroup", map[string]any{"objectGroup": "parawork"})
	if err != nil {
		return staleError(err)
	}
	if got.Exception != nil || result == nil {
		return nil
	}
	_ = json.Unmarshal(got.Result.Value, result) // a page may have changed what its functions return
	return nil
}

// uncovered refuses an element that something else covers, or that takes no clicks.
func (b *browser) uncovered(ctx context.Context, e element, at point) error {
	var what string
	err := b.onElement(ctx, e, `function(x, y, root) {
		if (!this.isConnected) return "gone"
		const e = this.nodeType === 1 ? this : this.parentElement
		if (!e) return ""
		if (e.matches(":disabled")) return "disabled"
		if (!root) return "" // of a frame that has no coordinates of its own
		let hit = document.elementFromPoint(x, y)
		while (hit && hit.shadowRoot) { const in_ = hit.shadowRoot.elementFromPoint(x, y); if (!in_ || in_ === hit) break; hit = in_ }
		for (let h = hit; h; h = h.parentNode || h.host) if (h === e) return ""
		if (!hit || e.contains(hit)) return ""
		const l = hit.closest("label"); if (l && l.control === e) return ""
		return "covered:<" + hit.tagName.toLowerCase() + (hit.id ? " id=" + hit.id : "") + ">"
	}`, &what, at.x, at.y, e.root)
	switch {
	case err != nil:
		return err
	case what == "gone":
		return errStale()
	case what == "disabled":
		return fault.New(fault.Conflict, "browser_element_disabled", "The element is disabled.")
	case strings.HasPrefix(what, "covered:"):
		return fault.New(fault.Conflict, "browser_element_covered", "The element is covered by %s. Close or scroll away what covers it.", clean(what[len("covered:"):], 100))
	}
	return nil
}

type mouseEvent struct {
	Type    string  `json:"type"`
	X       float64 `json:"x"`
	Y       float64 `json:"y"`
	Button  string  `json:"button,omitempty"`
	Buttons int     `json:"buttons,omitempty"`
	Clicks  int     `json:"clickCount,omitempty"`
	Mods    int     `json:"modifiers,omitempty"`
	DeltaX  float64 `json:"deltaX"`
	DeltaY  float64 `json:"deltaY"`
}

func (b *browser) mouse(ctx context.Context, t *tab, events ...mouseEvent) error {
	for _, e := range events {
		if err := b.unlessOpens(ctx, t, func(ctx context.Context) error { return b.call(ctx, t.session, "Input.dispatchMouseEvent", e, nil) }); err != nil {
			return err
		}
	}
	return nil
}

// unlessOpens does something in a page, and waits for its end unless the page opens a tab: Chromium does not answer when that comes in front.
func (b *browser) unlessOpens(ctx context.Context, t *tab, do func(context.Context) error) error {
	b.mu.Lock()
	before, opened := t.opened, false
	b.mu.Unlock()
	within, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		b.await(within, t, callTimeout, func() bool { opened = t.opened != before; return opened })
		if opened && tasks.Sleep(within, settleFirst) { // for an answer that comes after all
			cancel()
		}
	})
	err := do(within)
	cancel()
	watch.Wait()
	if opened && errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return nil
	}
	return err
}

// click clicks on an element.
func (b *browser) click(ctx context.Context, t *tab, e element, button string, double bool) error {
	at, err := b.where(ctx, t, e)
	if err != nil {
		return err
	}
	bits := map[string]int{"left": 1, "right": 2, "middle": 4}[button]
	events := []mouseEvent{{Type: "mouseMoved", X: at.x, Y: at.y}}
	for n := 1; n == 1 || double && n == 2; n++ {
		events = append(events, mouseEvent{Type: "mousePressed", X: at.x, Y: at.y, Button: button, Buttons: bits, Clicks: n}, mouseEvent{Type: "mouseReleased", X: at.x, Y: at.y, Button: button, Clicks: n})
	}
	return b.mouse(ctx, t, events...)
}

// hover moves the mouse over an element.
func (b *browser) hover(ctx context.Context, t *tab, e element) error {
	at, err := b.where(ctx, t, e)
	if err != nil {
		return err
	}
	return b.mouse(ctx, t, mouseEvent{Type: "mouseMoved", X: at.x, Y: at.y})
}

// fill focuses an element and types a text in place of what it has; with more at its end.
func (b *browser) fill(ctx context.Context, t *tab, e element, text string, more bool) error {
	var kind string
	err := b.onElement(ctx, e, `function(text, more) {
		let e = this.nodeType === 1 ? this : this.parentElement
		if (!e || !e.isConnected) return "gone"
		if (e.tagName === "LABEL" && e.control) e = e.control
		if (e.matches(":disabled") || e.readOnly) return "disabled"
		const set = ["date", "time", "datetime-local", "month", "week", "color", "range"]
		if (e.tagName === "INPUT" && set.includes(e.type)) {
			e.focus()
			Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(e, text)
			e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true}))
			return e.value === text ? "set" : "wrong:" + e.type
		}
		if (!(e.tagName === "TEXTAREA" || e.isContentEditable || e.tagName === "INPUT" && !["checkbox", "radio", "file", "button", "submit", "reset", "image"].includes(e.type))) return "none"
		e.scrollIntoViewIfNeeded(); e.focus()
		if (e.isContentEditable) {
			const r = document.createRange(); r.selectNodeContents(e); if (more) r.collapse(false)
			const s = getSelection(); s.removeAllRanges(); s.addRange(r)
		} else if (more) { try { e.setSelectionRange(e.value.length, e.value.length) } catch {} } else e.select()
		return "typed"
	}`, &kind, text, more)
	switch {
	case err != nil:
		return err
	case kind == "gone":
		return errStale()
	case kind == "set":
		return nil
	case kind == "disabled":
		return fault.New(fault.Conflict, "browser_element_disabled", "The element is disabled or can only be read.")
	case strings.HasPrefix(kind, "wrong:"):
		return fault.New(fault.Invalid, "browser_value_invalid", "The field of type %s does not take %.100q.", clean(kind[len("wrong:"):], 20), text).With("field", "text")
	case kind == "none":
		return fault.New(fault.Invalid, "browser_no_text_field", "Nothing can be typed into this element. Click on it, or choose another one.").With("field", "ref")
	}
	if text == "" {
		if more {
			return nil
		}
		return b.press(ctx, t, "Delete")
	}
	return b.insert(ctx, t, text)
}

// insert types a text into what has the focus.
func (b *browser) insert(ctx context.Context, t *tab, text string) error {
	return b.call(ctx, t.session, "Input.insertText", map[string]any{"text": text}, nil)
}

// press presses keys together.
func (b *browser) press(ctx context.Context, t *tab, keys string) error {
	down, up, err := combination(keys)
	if err != nil {
		return err
	}
	for _, e := range []keyEvent{down, up} {
		if err := b.call(ctx, t.session, "Input.dispatchKeyEvent", e, nil); err != nil {
			return err
		}
	}
	return nil
}

// choose selects options of a list by their values or labels.
func (b *browser) choose(ctx context.Context, e element, values []string) error {
	var missing string
	err := b.onElement(ctx, e, `function(values) {
		if (this.tagName !== "SELECT") return "none"
		if (this.disabled) return "disabled"
		const has = (o, v) => o.value === v || o.label.trim() === v || o.text.trim() === v
		for (const v of values) if (![...this.options].some(o => has(o, v))) return "missing:" + v
		if (!this.multiple) values = values.slice(-1)
		for (const o of this.options) o.selected = values.some(v => has(o, v))
		this.dispatchEvent(new Event("input", {bubbles: true})); this.dispatchEvent(new Event("change", {bubbles: true}))
		return ""
	}`, &missing, values)
	switch {
	case err != nil:
		return err
	case missing == "none":
		return fault.New(fault.Invalid, "browser_no_list", "The element is not a list of options. Click on it instead.").With("field", "ref")
	case missing == "disabled":
		return fault.New(fault.Conflict, "browser_element_disabled", "The element is disabled.")
	case missing != "":
		return fault.New(fault.Invalid, "browser_option_missing", "The list has no option %.100q.", clean(strings.TrimPrefix(missing, "missing:"), 100)).With("field", "values")
	}
	return nil
}

// evaluate runs JavaScript in the page and returns its value as JSON.
func (b *browser) evaluate(ctx context.Context, t *tab, expression string) (value json.RawMessage, thrown string, err error) {
	var got struct {
		Result struct {
			Value       json.RawMessage `json:"value"`
			Description string          `json:"description"`
			Type        string          `json:"type"`
		} `json:"result"`
		Thrown *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err = b.call(ctx, t.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true, "timeout": callTimeout.Milliseconds()}, &got)
	switch {
	case err != nil:
		return nil, "", err
	case got.Thrown != nil:
		return nil, safetext.Cut(safetext.Lines(got.Thrown.Text+" "+got.Thrown.Exception.Description), 4000), nil
	case len(got.Result.Value) == 0:
		value, err = json.Marshal(got.Result.Description)
		return value, "", err
	}
	return got.Result.Value, "", nil
}

// errTooBig says that no picture of a page fits.
var errTooBig = fault.New(fault.TooLarge, "browser_screenshot_too_large", "The picture is too large for one answer. Take one of the visible part, without full_page.")

// picture takes a picture of a page: a PNG when it fits, otherwise a JPEG as good as fits.
func (b *browser) picture(ctx context.Context, t *tab, full bool, most int) (data []byte, mime string, size image.Point, err error) {
	params := map[string]any{"format": "png", "optimizeForSpeed": true}
	if full {
		var m struct {
			Size struct {
				Width  float64 `json:"width"`
				Height float64 `json:"height"`
			} `json:"cssContentSize"`
		}
		if err := b.call(ctx, t.session, "Page.getLayoutMetrics", nil, &m); err != nil {
			return nil, "", size, err
		}
		params["captureBeyondViewport"] = true
		params["clip"] = map[string]any{"x": 0, "y": 0, "width": min(max(m.Size.Width, 1), maxCanvas), "height": min(max(m.Size.Height, 1), maxCanvas), "scale": 1}
	}
	for _, quality := range []int{0, 80, 50, 20} {
		if quality > 0 {
			params["format"], params["quality"] = "jpeg", quality
		}
		var got struct {
			Data []byte `json:"data"`
		}
		if err := b.call(ctx, t.session, "Page.captureScreenshot", params, &got); err != nil {
			if _, refused := errors.AsType[*cdp.Error](err); refused {
				err = fault.Wrap(err, fault.Unavailable, "browser_screenshot_failed", "The browser could not take a picture of the page. Try again in a moment.")
			}
			return nil, "", size, err
		}
		if len(got.Data) > most {
			continue
		}
		mime, decode := "image/png", png.DecodeConfig
		if quality > 0 {
			mime, decode = "image/jpeg", jpeg.DecodeConfig
		}
		c, err := decode(bytes.NewReader(got.Data))
		if err != nil {
			return nil, "", size, fault.Wrap(err, fault.Unavailable, "browser_screenshot_failed", "The browser's picture of the page cannot be read. Try again in a moment.")
		}
		return got.Data, mime, image.Pt(c.Width, c.Height), nil
	}
	return nil, "", size, errTooBig
}
