package browser

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/jsonlist"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools/browser/cdp"
)

// Bounds of a snapshot.
const (
	snapshotBytes = 20 << 10
	maxRefs       = 5000 // of one document
	maxNameText   = 200  // bytes of a name or a value
	maxProperties = 50   // of a node
	maxFrames     = 20
	maxDepth      = 60
	snapshotTries = 4
)

// refs name the elements of one document, by the numbers agents use. They are worth nothing once another document is there.
type refs struct {
	nodes []element       // by number from 1
	known map[element]int // their numbers
}

// of returns the number of an element. 0: there are too many.
func (r *refs) of(node element) int {
	if n := r.known[node]; n > 0 {
		return n
	}
	if len(r.nodes) >= maxRefs {
		return 0
	}
	if r.known == nil {
		r.known = map[element]int{}
	}
	r.nodes = append(r.nodes, node)
	r.known[node] = len(r.nodes)
	return len(r.nodes)
}

// axValue is a value of the accessibility tree.
type axValue struct {
	Value json.RawMessage `json:"value"`
}

func (v axValue) text() string {
	var s string
	if json.Unmarshal(v.Value, &s) != nil {
		s = string(v.Value)
	}
	return safetext.Cut(safetext.OneLine(s), maxNameText)
}

// axNode is a node of the accessibility tree.
type axNode struct {
	ID       string                `json:"nodeId"`
	Parent   string                `json:"parentId"`
	Ignored  bool                  `json:"ignored"`
	Role     axValue               `json:"role"`
	Name     axValue               `json:"name"`
	Value    axValue               `json:"value"`
	Children jsonlist.List[string] `json:"childIds"`
	Node     int64                 `json:"backendDOMNodeId"`

	Properties axProperties `json:"properties"`
}

type axProperty struct {
	Name  string  `json:"name"`
	Value axValue `json:"value"`
}

// axProperties are the first properties of a node.
type axProperties []axProperty

// UnmarshalJSON implements json.Unmarshaler.
func (p *axProperties) UnmarshalJSON(raw []byte) (err error) {
	*p, err = jsonlist.Read[axProperty](raw, maxProperties)
	return err
}

// interactive are the roles that people act on.
var interactive = map[string]bool{
	"button": true, "link": true, "textbox": true, "searchbox": true, "checkbox": true, "radio": true, "combobox": true, "listbox": true, "option": true,
	"menuitem": true, "menuitemcheckbox": true, "menuitemradio": true, "switch": true, "slider": true, "spinbutton": true, "tab": true, "treeitem": true,
	"ComboBoxSelect": true, "ComboBoxMenuButton": true, "TextFieldWithComboBox": true, "ListBoxOption": true, "MenuListOption": true, "Date": true, "DateTime": true,
	"InputTime": true, "ColorWell": true, "DisclosureTriangle": true, "Iframe": true, "PopUpButton": true,
}

// context are the roles that say where one is, or what has happened.
var landmarks = map[string]bool{"heading": true, "alert": true, "status": true, "dialog": true, "alertdialog": true, "RootWebArea": true}

// plain are the roles that say nothing by themselves.
var plain = map[string]bool{"generic": true, "none": true, "InlineTextBox": true, "LineBreak": true, "presentation": true, "": true, "Section": true, "LayoutTable": true}

// shownProperties are properties that a snapshot shows when they are set.
var shownProperties = map[string]bool{"checked": true, "disabled": true, "expanded": true, "focused": true, "level": true, "pressed": true, "readonly": true, "required": true, "selected": true, "invalid": true, "url": false}

// tree is one frame's accessibility tree as lines.
type tree struct {
	nodes map[string]*axNode
	refs  *refs
	in    element // what all elements of the frame have in common
	all   bool    // texts and structure too
	lines []string
}

// snapshot describes the page as lines of text. The refs it names belong to the document that is there now.
func (b *browser) snapshot(ctx context.Context, t *tab, all bool) ([]string, error) {
	frames, err := b.frames(ctx, t)
	if err != nil {
		return nil, err
	}
	var lines []string
	for i, f := range frames {
		var got struct {
			Nodes jsonlist.List[axNode] `json:"nodes"`
		}
		err := b.call(ctx, f.session, "Accessibility.getFullAXTree", map[string]any{"frameId": f.id}, &got)
		if err != nil && i > 0 {
			lines = append(lines, "- iframe "+strconv.Quote(f.url)+": its contents cannot be read")
			continue
		}
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		if t.loader != frames[0].loader {
			b.mu.Unlock()
			return nil, errStale()
		}
		tr := tree{nodes: make(map[string]*axNode, len(got.Nodes)), refs: &t.refs, all: all, in: element{session: f.session, loader: f.document, root: f.root}}
		for i := range got.Nodes {
			tr.nodes[got.Nodes[i].ID] = &got.Nodes[i]
		}
		if i > 0 {
			tr.lines = append(tr.lines, "- iframe "+strconv.Quote(f.url)+":")
		}
		if len(got.Nodes) > 0 {
			delete(tr.nodes, got.Nodes[0].ID)
			tr.walk(&got.Nodes[0], min(i, 1), 0, "")
		}
		b.mu.Unlock()
		lines = append(lines, tr.lines...)
	}
	return lines, nil
}

// walk writes a node and what is below it. parent is the name of the node that was written last above.
func (t *tree) walk(n *axNode, depth, nested int, parent string) {
	if nested > maxDepth*4 || depth > maxDepth {
		return
	}
	role, name := n.Role.text(), n.Name.text()
	shown := !n.Ignored && t.shows(n, role, name, parent)
	if shown {
		t.lines = append(t.lines, strings.Repeat("  ", depth)+t.line(n, role, name))
		depth++
		if name != "" {
			parent = name
		}
	}
	if shown && !t.all && (role == "button" || role == "link" || role == "heading") && len(n.Children) == 0 {
		return
	}
	for _, id := range n.Children {
		if c := t.nodes[id]; c != nil {
			delete(t.nodes, id) // a tree that says it has a circle has none
			t.walk(c, depth, nested+1, parent)
		}
	}
}

// shows reports whether a snapshot shows a node.
func (t *tree) shows(n *axNode, role, name, parent string) bool {
	switch {
	case plain[role]:
		return false
	case interactive[role]:
		return true
	case role == "RootWebArea":
		return false // its title is in the head
	case landmarks[role]:
		return name != "" || t.all
	case t.all && role == "StaticText":
		return name != "" && name != parent
	case t.all:
		return name != "" && name != parent || role == "table" || role == "list" || role == "row" || role == "form" || role == "paragraph" && false
	}
	return focusable(n) && name != ""
}

func focusable(n *axNode) bool {
	for _, p := range n.Properties {
		if p.Name == "focusable" && string(p.Value.Value) == "true" {
			return true
		}
	}
	return false
}

// line describes a node.
func (t *tree) line(n *axNode, role, name string) string {
	if role == "StaticText" {
		return "- text: " + name
	}
	var s strings.Builder
	s.WriteString("- " + role)
	if name != "" {
		s.WriteString(" " + strconv.Quote(name))
	}
	for _, p := range n.Properties {
		if v := p.Value.text(); shownProperties[p.Name] && v != "false" && v != "" {
			if v == "true" {
				s.WriteString(" [" + p.Name + "]")
			} else {
				s.WriteString(" [" + p.Name + "=" + v + "]")
			}
		}
	}
	if v := n.Value.text(); len(n.Value.Value) > 0 && v != name {
		s.WriteString(" value=" + strconv.Quote(v))
	}
	if n.Node > 0 && (interactive[role] || focusable(n) || name != "" && t.all) {
		e := t.in
		e.node = n.Node
		if ref := t.refs.of(e); ref > 0 {
			s.WriteString(" @e" + strconv.Itoa(ref))
		}
	}
	return s.String()
}

// page cuts lines to what one answer may have. from is the first line, from 0; next is where to go on, 0 at the end.
func page(lines []string, from, most int) (text string, next int) {
	var s strings.Builder
	for i := min(from, len(lines)); i < len(lines); i++ {
		if s.Len()+len(lines[i])+1 > most && i > from {
			return s.String(), i
		}
		s.WriteString(lines[i] + "\n")
	}
	return s.String(), 0
}

// errStale says that a ref names nothing any more.
func errStale() error {
	return fault.New(fault.Conflict, "browser_ref_stale", "The page has changed, and this ref is no longer valid. Take a snapshot to get new ones: browser_snapshot.")
}

// element finds what a ref names.
func (b *browser) element(t *tab, ref string) (element, error) {
	num, err := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(ref), "@"), "e"))
	if err != nil || num < 1 {
		return element{}, fault.New(fault.Invalid, "browser_ref_invalid", "%.50q is not a ref. Refs are in the snapshot, such as @e3.", ref).With("field", "ref")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if num > len(t.refs.nodes) {
		return element{}, errStale()
	}
	return t.refs.nodes[num-1], nil
}

// staleError turns Chromium's refusal of an element that is gone into ours.
func staleError(err error) error {
	if e, ok := errors.AsType[*cdp.Error](err); ok && (strings.Contains(e.Message, "No node") || strings.Contains(e.Message, "not find node") || strings.Contains(e.Message, "does not belong") ||
		strings.Contains(e.Message, "Node is detached") || strings.Contains(e.Message, "not attached") || strings.Contains(e.Message, "Session with given id not found")) {
		return fault.Wrap(err, fault.Conflict, "browser_ref_stale", "The page has changed, and this ref is no longer valid. Take a snapshot to get new ones: browser_snapshot.")
	}
	return err
}
