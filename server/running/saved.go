package running

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/history"
)

// savedAs are the formats in which a conversation is saved: the ending of the file's name and its type.
var savedAs = map[api.ExportSessionParamsFormat][2]string{
	api.ExportSessionParamsFormatMarkdown: {".md", "text/markdown; charset=utf-8"},
	api.ExportSessionParamsFormatHtml:     {".html", "text/html; charset=utf-8"},
	api.ExportSessionParamsFormatJson:     {".json", "application/json"},
}

// savedPage is how many items are read at once, which bounds the memory that a download takes.
const savedPage = 200

// writing is how a format is written: what comes before, between and after the items, and an item or a line of the terminal.
type writing struct {
	head   func(b *bytes.Buffer, s sessions.Session) error
	foot   string
	item   func(b *bytes.Buffer, it conversation.Placed, first bool) error
	before string // the terminal's lines
	line   func(b *bytes.Buffer, text string, first bool) error
	after  string
}

// saved reads a conversation in a format, page by page; where an agent keeps no record, what its terminal showed.
type saved struct {
	writing
	buf      bytes.Buffer
	session  sessions.Session
	secrets  *redact.Finder // nil = the team has none
	page     func(after int64) (conversation.Page, error)
	terminal func() (io.ReadCloser, error)

	begun, any, done bool
	read             int64 // the place of the last item
	text             io.ReadCloser
	lines            *bufio.Reader
}

// save makes the reader of a session's conversation. Secrets are masked before the text is formatted: what masks answers sees a download in
// pieces, and does not know HTML.
func (h Replay) save(ctx context.Context, s sessions.Session, format api.ExportSessionParamsFormat) (*saved, error) {
	secrets, err := h.cfg.SecretsIn(ctx, s.TeamID)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "secrets_unknown", "The team's secrets, which must be masked, could not be read. Try again in a moment.")
	}
	s.Prompt = secrets.Text(s.Prompt, nil)
	out := &saved{writing: map[api.ExportSessionParamsFormat]writing{api.ExportSessionParamsFormatMarkdown: asMarkdown, api.ExportSessionParamsFormatHtml: asHTML, api.ExportSessionParamsFormatJson: asJSON}[format],
		session: s, secrets: secrets}
	out.page = func(after int64) (conversation.Page, error) {
		c, err := h.cfg.Sessions.Conversation(ctx, s.ID, conversation.Query{Limit: savedPage, Oldest: true, After: after})
		return c.Page, err
	}
	out.terminal = func() (io.ReadCloser, error) {
		return h.cfg.History.Export(ctx, s.ID, history.PlainText)
	}
	return out, nil
}

// masked is an item without the values of the team's secrets.
func (s *saved) masked(it conversation.Placed) conversation.Placed {
	for _, text := range []*string{&it.Text, &it.Tool, &it.Title, &it.Input, &it.Output, &it.Path, &it.Diff} {
		*text = s.secrets.Text(*text, nil)
	}
	it.Media = slices.Clone(it.Media) // others read the conversation, too
	for i := range it.Media {
		it.Media[i].Name = s.secrets.Text(it.Media[i].Name, nil)
	}
	return it
}

// Read implements io.Reader.
func (s *saved) Read(p []byte) (int, error) {
	for s.buf.Len() == 0 {
		if s.done {
			return 0, io.EOF
		}
		if err := s.more(); err != nil {
			return 0, err
		}
	}
	return s.buf.Read(p)
}

// Close ends what is still read.
func (s *saved) Close() error {
	if s.text != nil {
		return s.text.Close()
	}
	return nil
}

func (s *saved) more() error {
	if !s.begun {
		s.begun = true
		if err := s.head(&s.buf, s.session); err != nil {
			return err
		}
	}
	if s.text != nil {
		return s.moreText()
	}
	page, err := s.page(s.read)
	if err != nil {
		return err
	}
	for _, it := range page.Items {
		if err := s.item(&s.buf, s.masked(it), !s.any); err != nil {
			return err
		}
		s.any, s.read = true, it.Place
	}
	switch {
	case page.More:
		return nil
	case !s.any:
		if s.text, err = s.terminal(); err != nil {
			return err
		}
		s.lines = bufio.NewReaderSize(s.text, 64<<10)
		s.buf.WriteString(s.before)
		return nil
	}
	s.end()
	return nil
}

// moreText writes some lines of the terminal. One that is longer than the reader's buffer comes in parts.
func (s *saved) moreText() error {
	for s.buf.Len() < 64<<10 {
		line, _, err := s.lines.ReadLine()
		if errors.Is(err, io.EOF) {
			s.buf.WriteString(s.after)
			s.end()
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.line(&s.buf, s.secrets.Text(strings.ToValidUTF8(string(line), "\uFFFD"), nil), !s.any); err != nil {
			return err
		}
		s.any = true
	}
	return nil
}

func (s *saved) end() {
	s.buf.WriteString(s.foot)
	s.done = true
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC") }

// title is what an item is called in a document.
func title(it conversation.Placed) string {
	name := map[conversation.Kind]string{conversation.Prompt: "Prompt", conversation.Text: "Answer", conversation.Thinking: "Thinking", conversation.Tool: "Tool", conversation.Edit: "Edit",
		conversation.Question: "Question", conversation.Answer: "Answer to a question", conversation.Error: "Error", conversation.Note: "Note"}[it.Kind]
	what := cmp.Or(it.Title, it.Path)
	switch {
	case it.Tool != "" && what != "" && what != it.Tool:
		name += ": " + it.Tool + " " + what
	case it.Tool+what != "":
		name += ": " + cmp.Or(what, it.Tool)
	}
	if it.Undone {
		name += " (taken back)"
	}
	return strings.Join(strings.Fields(name), " ")
}

// texts are the parts of an item that are shown as they are; a text of the agent or of a person comes first, as prose.
func texts(it conversation.Placed) (prose string, blocks []string) {
	for _, s := range []string{it.Input, it.Diff, it.Output} {
		if s != "" {
			blocks = append(blocks, s)
		}
	}
	for _, m := range it.Media {
		blocks = append(blocks, fmt.Sprintf("%s (%s, %d bytes)", cmp.Or(m.Name, "file"), m.MIME, m.Size))
	}
	return it.Text, blocks
}

// fenced is a block of Markdown that shows s as it is, whatever it holds.
func fenced(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimRight(s, "\n") + "\n" + fence + "\n\n"
}

var asMarkdown = writing{
	head: func(b *bytes.Buffer, s sessions.Session) error {
		fmt.Fprintf(b, "# %s, %s\n\nSession %s, started %s.\n\n", s.AgentName, clock(s.StartedAt)[:10], s.ID, clock(s.StartedAt))
		return nil
	},
	item: func(b *bytes.Buffer, it conversation.Placed, _ bool) error {
		if it.Kind == conversation.Spent {
			return nil
		}
		fmt.Fprintf(b, "## %s\n\n*%s*\n\n", strings.NewReplacer("<", "&lt;", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[").Replace(title(it)), clock(it.At))
		prose, blocks := texts(it)
		switch {
		case prose == "":
		case it.Kind == conversation.Text:
			b.WriteString(strings.TrimRight(prose, "\n") + "\n\n")
		default:
			b.WriteString(fenced(prose))
		}
		for _, s := range blocks {
			b.WriteString(fenced(s))
		}
		return nil
	},
	before: "The agent keeps no record of its conversation. This is what its terminal showed.\n\n",
	line: func(b *bytes.Buffer, text string, _ bool) error {
		b.WriteString("    " + text + "\n") // indented: no line can end the block
		return nil
	},
}

var asHTML = writing{
	head: func(b *bytes.Buffer, s sessions.Session) error {
		name := html.EscapeString(s.AgentName + ", " + clock(s.StartedAt)[:10])
		fmt.Fprintf(b, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>%s</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}section{margin:1.25rem 0}h2{font-size:1rem;margin:0}time{opacity:.65;font-size:.85rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.45 ui-monospace,monospace;border:1px solid #8885;border-radius:6px;padding:.5rem .75rem;margin:.4rem 0}pre.said{font:inherit;border:0;padding:0}.prompt{border-left:3px solid #48f;padding-left:.75rem}.error h2{color:#c33}</style>
</head><body><h1>%s</h1><p>Session %s, started %s.</p>
`, name, name, html.EscapeString(s.ID), clock(s.StartedAt))
		return nil
	},
	item: func(b *bytes.Buffer, it conversation.Placed, _ bool) error {
		if it.Kind == conversation.Spent {
			return nil
		}
		fmt.Fprintf(b, "<section class=\"%s\" id=\"%s\"><h2>%s</h2><time>%s</time>\n", html.EscapeString(string(it.Kind)), html.EscapeString(it.ID), html.EscapeString(title(it)), clock(it.At))
		prose, blocks := texts(it)
		if prose != "" {
			b.WriteString("<pre class=\"said\">" + html.EscapeString(prose) + "</pre>\n")
		}
		for _, s := range blocks {
			b.WriteString("<pre>" + html.EscapeString(s) + "</pre>\n")
		}
		b.WriteString("</section>\n")
		return nil
	},
	before: "<p>The agent keeps no record of its conversation. This is what its terminal showed.</p><pre>",
	line: func(b *bytes.Buffer, text string, _ bool) error {
		b.WriteString(html.EscapeString(text) + "\n")
		return nil
	},
	after: "</pre>\n",
	foot:  "</body></html>\n",
}

var asJSON = writing{
	head: func(b *bytes.Buffer, s sessions.Session) error {
		about, err := json.Marshal(map[string]any{"id": s.ID, "workspace_id": s.WorkspaceID, "agent": s.Agent, "agent_name": s.AgentName, "started_at": s.StartedAt, "ended_at": rest.Ptr(s.EndedAt), "prompt": s.Prompt})
		fmt.Fprintf(b, `{"session":%s,"items":[`, about)
		return err
	},
	item: func(b *bytes.Buffer, it conversation.Placed, first bool) error {
		return addJSON(b, conversationItemOf(it), first)
	},
	before: `],"terminal":[`,
	line:   func(b *bytes.Buffer, text string, first bool) error { return addJSON(b, text, first) },
	foot:   "\n]}\n",
}

func addJSON(b *bytes.Buffer, v any, first bool) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if !first {
		b.WriteByte(',')
	}
	b.WriteByte('\n')
	b.Write(raw)
	return nil
}
