package preview

import (
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

// most that is read of a style sheet, and of one piece of a page, to edit it: what is longer passes as it is.
const mostEdited = 4 << 20

// edit puts the proxy's script into a page, and below a path leads addresses that begin with / there.
func (v visit) edit(resp *http.Response) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Content-Range") != "" {
		return
	}
	switch {
	case kind == "text/html" && v.inject:
		z := nethtml.NewTokenizer(resp.Body)
		z.SetMaxBuf(mostEdited)
		resp.Body = &editedPage{v: v, z: z, body: resp.Body}
	case kind == "text/css" && v.base != "":
		resp.Body = &editedSheet{v: v, body: resp.Body}
	default:
		return
	}
	resp.Header.Del("Content-Length")
	resp.Header.Del("Etag")
	resp.ContentLength = -1
}

// editedPage is a page with the proxy's script before its first own.
type editedPage struct {
	v    visit
	z    *nethtml.Tokenizer
	body io.ReadCloser
	out  bytes.Buffer
	done bool      // the script is in it
	rest io.Reader // what is not edited
}

// Close closes the page below.
func (e *editedPage) Close() error { return e.body.Close() }

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
		if err := e.z.Err(); err != nethtml.ErrBufferExceeded {
			if len(raw) == 0 {
				return err
			}
			e.out.Write(raw)
			return nil
		}
		e.out.Write(raw)
		e.untouched()
	case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
		tag := e.z.Token()
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
			e.untouched()
		}
	default:
		e.out.Write(raw)
	}
	return nil
}

// untouched passes the rest as it is.
func (e *editedPage) untouched() {
	e.rest = io.MultiReader(bytes.NewReader(bytes.Clone(e.z.Buffered())), e.body)
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
	v    visit
	body io.ReadCloser
	out  io.Reader
}

// Close closes the sheet below.
func (e *editedSheet) Close() error { return e.body.Close() }

// Read returns the next bytes of the edited sheet.
func (e *editedSheet) Read(b []byte) (int, error) {
	if e.out == nil {
		all, err := io.ReadAll(io.LimitReader(e.body, mostEdited+1))
		if err != nil {
			return 0, err
		}
		if len(all) <= mostEdited {
			all = sheetAddress.ReplaceAll(all, []byte("${1}"+e.v.base+"${2}"))
		}
		e.out = io.MultiReader(bytes.NewReader(all), e.body)
	}
	return e.out.Read(b)
}
