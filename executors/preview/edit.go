package preview

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"html"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"

	nethtml "golang.org/x/net/html"
)

//go:embed preview.js
var script []byte

func serveScript(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	allowNull(h)
	_, _ = w.Write(script)
}

// mostEdited is how much of a page or a style sheet is stored at once to edit it. Parsing a tag takes many times its size, and a hostile page
// asks for many at once. A longer tag passes as it is, a longer text in parts.
const mostEdited = 32 << 10

// edit puts the proxy's script into a page, and below a path leads addresses that begin with / there.
func (v visit) edit(resp *http.Response) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Content-Range") != "" {
		return
	}
	switch {
	case kind == "text/html" && v.inject:
		e := &editedPage{Closer: resp.Body, v: v}
		e.read(resp.Body)
		resp.Body = e
	case kind == "text/css" && v.base != "":
		resp.Body = &editedSheet{Closer: resp.Body, v: v, in: bufio.NewReaderSize(resp.Body, mostEdited)}
	default:
		return
	}
	resp.Header.Del("Content-Length")
	resp.Header.Del("Etag")
	resp.ContentLength = -1
}

// editedPage is a page with the proxy's script before its first own.
type editedPage struct {
	io.Closer
	v    visit
	z    *nethtml.Tokenizer
	out  bytes.Buffer
	from io.Reader // what z reads
	in   string    // the element that began last, "" after one ended
	done bool      // the script is in it
	rest io.Reader // what is not edited
}

// Read returns the next bytes of the edited page.
func (e *editedPage) Read(b []byte) (int, error) {
	for e.out.Len() == 0 {
		if e.rest != nil {
			return e.rest.Read(b)
		}
		if err := e.next(); err != nil {
			return 0, err
		}
	}
	return e.out.Read(b)
}

// next edits one token.
func (e *editedPage) next() error {
	kind := e.z.Next()
	raw := bytes.Clone(e.z.Raw())
	switch kind {
	case nethtml.ErrorToken:
		e.out.Write(raw)
		switch err := e.z.Err(); {
		case err == nethtml.ErrBufferExceeded:
			e.read(e.unread())
		case len(raw) == 0:
			return err
		}
	case nethtml.EndTagToken:
		e.in = ""
		e.out.Write(raw)
	case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
		tag := e.z.Token()
		e.in = tag.Data
		if !e.done && tag.Data != "html" && tag.Data != "head" {
			e.insert()
		}
		if e.v.base != "" && e.v.rebase(&tag) {
			raw = []byte(tag.String())
		}
		e.out.Write(raw)
		if tag.Data == "head" && !e.done {
			e.insert()
		}
		if e.done && e.v.base == "" {
			e.rest = e.unread()
		}
	default:
		e.out.Write(raw)
	}
	return nil
}

// read goes on to edit what from holds, which begins in the element that began last: a script's text may have any length.
func (e *editedPage) read(from io.Reader) {
	e.from, e.z = from, nethtml.NewTokenizer(from)
	if e.in != "" {
		e.z = nethtml.NewTokenizer(io.MultiReader(strings.NewReader("<"+e.in+">"), from))
		e.z.Next() // the tag, which is sent already
	}
	e.z.SetMaxBuf(mostEdited)
}

// unread returns the rest of the page.
func (e *editedPage) unread() io.Reader {
	return io.MultiReader(bytes.NewReader(bytes.Clone(e.z.Buffered())), e.from)
}

func (e *editedPage) insert() {
	e.done = true
	e.out.WriteString(`<script src="` + e.v.base + scriptPath + `" data-app="` + html.EscapeString(e.v.app) + `" data-base="` + e.v.base + `"></script>`)
	if e.v.base != "" { // what modules import from / is below the path as well
		to := e.v.base + "/"
		imports, _ := json.Marshal(map[string]map[string]string{"imports": {"/": to, to: to}})
		e.out.WriteString(`<script type="importmap">` + string(imports) + `</script>`)
	}
}

// rebase leads addresses in a tag's attributes below the path. It reports whether there were any.
func (v visit) rebase(tag *nethtml.Token) bool {
	changed := false
	for i, a := range tag.Attr {
		to := a.Val
		switch a.Key {
		case "src", "href", "action", "formaction", "poster", "data":
			to = v.outward(a.Val)
		case "srcset", "imagesrcset":
			parts := strings.Split(a.Val, ",")
			for n, part := range parts {
				parts[n] = v.outward(strings.TrimSpace(part))
			}
			to = strings.Join(parts, ", ")
		}
		changed = changed || to != a.Val
		tag.Attr[i].Val = to
	}
	return changed
}

var sheetAddress = regexp.MustCompile(`((?:url\(|@import)\s*["']?)(/[^/])`)

// editedSheet is a style sheet whose addresses lead below the path.
type editedSheet struct {
	io.Closer
	v   visit
	in  *bufio.Reader
	out bytes.Buffer
}

// Read returns the next bytes of the edited sheet.
func (e *editedSheet) Read(b []byte) (int, error) {
	for e.out.Len() == 0 {
		piece, err := e.in.ReadSlice(')') // no address goes on after it
		if len(piece) == 0 {
			return 0, err
		}
		e.out.Write(sheetAddress.ReplaceAll(piece, []byte("${1}"+e.v.base+"${2}")))
	}
	return e.out.Read(b)
}
