package fetch

import (
	"bytes"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/safetext"
)

const (
	maxToken = 1 << 20 // bytes of one tag or text
	maxTitle = 1000
	maxNest  = 20 // lists in lists that are indented differently
)

// markdown turns a page into its title and a text in the manner of Markdown. It reads the page once, tag by tag, and builds no tree: what
// a page nests costs nothing.
func markdown(page string, base *url.URL) (title, text string) {
	p := &printer{base: base}
	z := html.NewTokenizer(strings.NewReader(page))
	z.SetMaxBuf(maxToken)
	for p.out.Len() <= 2*guest.MaxFetchedText { // links grow by the page's address, so a page that fits can make a text that does not
		switch z.Next() {
		case html.ErrorToken:
			return p.result()
		case html.TextToken:
			p.words(string(z.Text()))
		case html.StartTagToken:
			p.tag(z.Token(), false)
		case html.SelfClosingTagToken:
			p.tag(z.Token(), true)
		case html.EndTagToken:
			p.end(z.Token().DataAtom)
		}
	}
	return p.result()
}

// clean is a text with each white space as one space.
func clean(s string) string { return strings.Join(strings.Fields(s), " ") }

// printer writes the text.
type printer struct {
	base  *url.URL
	out   bytes.Buffer
	title strings.Builder

	skip  atom.Atom // of what is inside, nothing is written
	deep  int       // how often it is nested
	inPre bool
	named bool // in the title
	space bool // white space is due before the next word
	lines int  // line breaks that are due before the next word
	lists int
	link  string // of the link that is open
	at    int    // where its text begins; -1 = none is open
}

func (p *printer) result() (title, text string) {
	return safetext.Cut(clean(p.title.String()), maxTitle), strings.TrimSpace(p.out.String())
}

// skipped are elements whose content is not the page's text.
func skipped(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Noscript, atom.Svg, atom.Template, atom.Iframe, atom.Canvas, atom.Object, atom.Select, atom.Button:
		return true
	}
	return false
}

// void are elements that have no end.
func void(a atom.Atom) bool {
	switch a {
	case atom.Br, atom.Hr, atom.Img, atom.Input, atom.Meta, atom.Link, atom.Base, atom.Col, atom.Wbr, atom.Source:
		return true
	}
	return false
}

var headings = map[atom.Atom]string{atom.H1: "# ", atom.H2: "## ", atom.H3: "### ", atom.H4: "#### ", atom.H5: "##### ", atom.H6: "###### "}

func (p *printer) tag(t html.Token, closed bool) {
	a := t.DataAtom
	if p.skip != 0 {
		if a == p.skip && !closed {
			p.deep++
		}
		return
	}
	switch {
	case skipped(a) && !closed && !void(a):
		p.skip, p.deep = a, 1
	case headings[a] != "":
		p.broken(2)
		p.put(headings[a])
	}
	switch a {
	case atom.Title:
		p.named = !closed
	case atom.Br:
		p.broken(min(p.lines+1, 2))
	case atom.Hr:
		p.broken(2)
		p.put("---")
		p.broken(2)
	case atom.Ul, atom.Ol:
		p.lists++
		p.broken(1)
	case atom.Li:
		p.broken(1)
		p.put(strings.Repeat("  ", min(max(p.lists-1, 0), maxNest)) + "- ")
	case atom.Td, atom.Th:
		p.put("| ")
	case atom.Pre:
		p.broken(2)
		p.put("```\n")
		p.inPre = true
	case atom.Code:
		if !p.inPre {
			p.put("`")
		}
	case atom.Img:
		if alt := clean(attribute(t, "alt")); alt != "" {
			p.put("![" + alt + "]")
		}
	case atom.A:
		p.closeLink()
		if href := p.absolute(attribute(t, "href")); href != "" && !p.inPre {
			p.flush()
			p.link, p.at = href, p.out.Len()+1
			p.out.WriteByte('[')
		}
	default:
		p.block(a)
	}
}

// block breaks the line around an element that is one.
func (p *printer) block(a atom.Atom) {
	switch a {
	case atom.P, atom.Blockquote, atom.Table, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Main, atom.Nav, atom.Aside, atom.Form, atom.Figure, atom.Dl:
		p.broken(2)
	case atom.Div, atom.Tr, atom.Dt, atom.Dd, atom.Figcaption, atom.Details, atom.Summary, atom.Option, atom.Label, atom.Li:
		p.broken(1)
	}
}

func (p *printer) end(a atom.Atom) {
	if p.skip != 0 {
		if a == p.skip {
			if p.deep--; p.deep == 0 {
				p.skip = 0
			}
		}
		return
	}
	switch {
	case headings[a] != "":
		p.broken(2)
	case a == atom.Title:
		p.named = false
	case a == atom.Ul || a == atom.Ol:
		p.lists = max(p.lists-1, 0)
		p.broken(1)
		if p.lists == 0 {
			p.broken(2)
		}
	case a == atom.Pre && p.inPre:
		p.inPre = false
		if !bytes.HasSuffix(p.out.Bytes(), []byte("\n")) {
			p.out.WriteByte('\n')
		}
		p.out.WriteString("```")
		p.broken(2)
	case a == atom.Code:
		if !p.inPre {
			p.out.WriteByte('`')
		}
	case a == atom.A:
		p.closeLink()
	case a == atom.Td || a == atom.Th:
		p.space = true
	default:
		p.block(a)
	}
}

// closeLink ends the link that is open. One without a text is not written.
func (p *printer) closeLink() {
	if p.link == "" {
		return
	}
	if text := strings.TrimSpace(string(p.out.Bytes()[p.at:])); text == "" {
		p.out.Truncate(p.at - 1)
	} else {
		p.out.Truncate(p.at)
		p.out.WriteString(clean(text) + "](" + p.link + ")")
	}
	p.link = ""
}

// absolute is the address of a link; "" for one that leads nowhere else.
func (p *printer) absolute(href string) string {
	u, err := p.base.Parse(strings.TrimSpace(href))
	if err != nil || href == "" || strings.HasPrefix(href, "#") || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return ""
	}
	return u.String()
}

func attribute(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func (p *printer) words(s string) {
	switch {
	case p.skip != 0:
	case p.named:
		if p.title.Len() < maxTitle {
			p.title.WriteString(s)
		}
	case p.inPre:
		p.out.WriteString(s)
	default:
		for i, w := range strings.Fields(s) {
			if i > 0 || strings.TrimLeft(s, " \t\r\n\f") != s {
				p.space = true
			}
			p.put(w)
		}
		if strings.TrimRight(s, " \t\r\n\f") != s {
			p.space = true
		}
	}
}

// broken asks for line breaks before what follows.
func (p *printer) broken(n int) {
	p.lines = max(p.lines, n)
}

// put writes a text after the white space that is due.
func (p *printer) put(s string) {
	p.flush()
	p.out.WriteString(s)
}

func (p *printer) flush() {
	switch {
	case p.out.Len() == 0:
	case p.lines > 0:
		p.out.WriteString("\n\n"[:min(p.lines, 2)])
	case p.space && !bytes.HasSuffix(p.out.Bytes(), []byte(" ")):
		p.out.WriteByte(' ')
	}
	p.space, p.lines = false, 0
}
