package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/jsonlist"
	"github.com/parawork/parawork/tools/browser/cdp"
)

// Chromium has frames of other sites in processes of their own. Each of them is a target with a session of its own, inside the page's: it has
// its own elements, and its own coordinates, which begin at its corner. Input goes to the page, in the page's coordinates.

// siteFrame is a frame of a page in a process of its own.
type siteFrame struct {
	id      string // of the frame, and of its target
	session string
	parent  string // the session of the frame around it
}

// element is an element of a page. Its document is the one that a snapshot described.
type element struct {
	node    int64  // backend node id, which is worth something in its session alone
	session string // of the page, or of one of its siteFrames
	loader  string // of the siteFrame's document; "" in the page itself, whose refs end with its document
	root    bool   // it is in the outermost frame of its session, where coordinates are the session's
}

// followFrames has Chromium report the frames of other sites below a page or a frame.
func (b *browser) followFrames(session string) {
	b.conn.Post(session, "Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true,
		"filter": []map[string]any{{"type": "iframe"}, {"exclude": true}}})
}

// frameEvent notes the frames of other sites that come and go. The session is the page's, or that of a frame around them.
func (b *browser) frameEvent(t *tab, e cdp.Event) {
	var p struct {
		Session string     `json:"sessionId"`
		Info    targetInfo `json:"targetInfo"`
	}
	if !e.Into(&p) || max(len(p.Session), len(p.Info.ID)) > maxID || p.Session == "" {
		return
	}
	switch e.Method {
	case "Target.attachedToTarget":
		if p.Info.Type != "iframe" || len(t.frames) >= maxFrames {
			b.conn.Post(e.Session, "Target.detachFromTarget", map[string]any{"sessionId": p.Session})
			return
		}
		t.frames = append(t.frames, siteFrame{p.Info.ID, p.Session, e.Session})
		b.followFrames(p.Session)
		b.conn.Post(p.Session, "Inspector.enable", nil)
		b.conn.Post(p.Session, "Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true})
	case "Target.detachedFromTarget":
		gone := []string{p.Session}
		for len(gone) > 0 { // with the frames inside it
			t.frames = slices.DeleteFunc(t.frames, func(f siteFrame) bool {
				if f.parent == gone[0] {
					gone = append(gone, f.session)
				}
				return f.session == gone[0]
			})
			gone = gone[1:]
		}
	}
}

// frameCrashed tells that a frame of another site crashed, which leaves the page.
func (b *browser) frameCrashed(t *tab, e cdp.Event) {
	if e.Method == "Inspector.targetCrashed" {
		b.notice("A frame inside the page of tab %d crashed. Open the page again: browser_open.", t.num)
	}
}

// inFrame finds the tab of a frame's session. The caller holds mu.
func (b *browser) inFrame(session string) *tab {
	for _, t := range b.tabs {
		if slices.ContainsFunc(t.frames, func(f siteFrame) bool { return f.session == session }) {
			return t
		}
	}
	return nil
}

// frameInfo is a frame of a page.
type frameInfo struct {
	session, id, loader, url string
	document                 string // the loader of the outermost frame of its session, which is another site's; "" in the page's session
	root                     bool   // it is the outermost frame of its session
}

// frames are the page's frames, the main one first.
func (b *browser) frames(ctx context.Context, t *tab) ([]frameInfo, error) {
	out, err := b.framesOf(ctx, t.session, maxFrames)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	t.frame = out[0].id
	t.newDocument(out[0].loader)
	others := slices.Clone(t.frames)
	b.mu.Unlock()
	for _, f := range others {
		inside, err := b.framesOf(ctx, f.session, maxFrames-len(out))
		if err != nil || len(inside) == 0 { // it is gone, or there are too many
			continue
		}
		for i := range inside {
			inside[i].document = inside[0].loader
		}
		out = append(out, inside...)
	}
	return out, nil
}

// framesOf are the frames of a session, at most so many.
func (b *browser) framesOf(ctx context.Context, session string, most int) ([]frameInfo, error) {
	type frame struct {
		Frame struct {
			ID     string `json:"id"`
			Loader string `json:"loaderId"`
			URL    string `json:"url"`
		} `json:"frame"`
		Children jsonlist.List[json.RawMessage] `json:"childFrames"`
	}
	var got struct {
		Tree json.RawMessage `json:"frameTree"`
	}
	if err := b.call(ctx, session, "Page.getFrameTree", nil, &got); err != nil {
		return nil, err
	}
	var out []frameInfo
	todo := []json.RawMessage{got.Tree}
	for len(todo) > 0 && len(out) < most {
		var f frame
		if err := json.Unmarshal(todo[0], &f); err != nil {
			return nil, fmt.Errorf("the browser's list of frames cannot be read: %w", err)
		}
		if max(len(f.Frame.ID), len(f.Frame.Loader)) > maxID {
			return nil, errors.New("the browser's list of frames has an id that is too long")
		}
		out = append(out, frameInfo{session: session, id: f.Frame.ID, loader: f.Frame.Loader, url: clean(f.Frame.URL, 200), root: len(out) == 0})
		todo = append(slices.Clone(todo[1:]), f.Children[:min(len(f.Children), maxFrames)]...) // what was read is not kept
	}
	return out, nil
}

// current refuses an element of a frame that shows another document by now: there its number may name another element.
func (b *browser) current(ctx context.Context, e element) error {
	if e.loader == "" {
		return nil
	}
	frames, err := b.framesOf(ctx, e.session, 1)
	if err != nil {
		return staleError(err)
	}
	if frames[0].loader != e.loader {
		return errStale()
	}
	return nil
}

// around is the element that shows the frame which an element is in, and where the frame's corner is; ok is false in the page itself.
func (b *browser) around(ctx context.Context, t *tab, e element) (owner element, corner point, ok bool, err error) {
	if e.session == t.session {
		return element{}, point{}, false, nil
	}
	b.mu.Lock()
	i := slices.IndexFunc(t.frames, func(f siteFrame) bool { return f.session == e.session })
	var f siteFrame
	if i >= 0 {
		f = t.frames[i]
	}
	b.mu.Unlock()
	if i < 0 {
		return element{}, point{}, false, errStale()
	}
	var got struct {
		Node int64 `json:"backendNodeId"`
	}
	if err := b.call(ctx, f.parent, "DOM.getFrameOwner", map[string]any{"frameId": f.id}, &got); err != nil {
		return element{}, point{}, false, staleError(err)
	}
	var box struct {
		Model struct {
			Content []float64 `json:"content"` // a quad
		} `json:"model"`
	}
	if err := b.call(ctx, f.parent, "DOM.getBoxModel", map[string]any{"backendNodeId": got.Node}, &box); err != nil || len(box.Model.Content) != 8 {
		return element{}, point{}, false, fault.New(fault.Conflict, "browser_element_hidden", "The frame of the element is not visible.")
	}
	return element{node: got.Node, session: f.parent, root: true}, point{box.Model.Content[0], box.Model.Content[1]}, true, nil
}
