// Package web is the tool that reads a page of the web. A program in the workspace's sandbox fetches it and turns it into a text, so that it
// reaches what the sandbox may reach, and a hostile page is read where it can do no harm. The server connects to nothing.
package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools"
)

const (
	usualBytes = 100_000 // of the text, unless the caller asks for less or more
	within     = 45 * time.Second
)

// Commands runs commands in sandboxes, and masks secrets in what they print. A command is cancelled when ctx ends.
type Commands interface {
	Exec(ctx context.Context, req command.Request) (command.Command, error)
}

// New returns the tool.
func New(commands Commands) tools.Tool {
	return tools.Func(tools.Spec{
		Name: "web_fetch", Title: "Read a page of the web", Group: "web", Unlisted: true,
		Description: "Fetches a page by its address from inside the sandbox, and answers with its text: HTML as Markdown, other text as it is. " +
			"It follows redirects within the host, and names the address of others. A host that the workspace may not reach is refused. For pages that need JavaScript use the browser_ tools.",
		Arguments: json.RawMessage(fmt.Sprintf(`{"type": "object", "additionalProperties": false, "required": ["url"], "properties": {
			"url": {"type": "string", "minLength": 1, "maxLength": %d, "description": "The address: http or https."},
			"max_bytes": {"type": "integer", "minimum": 1000, "maximum": %d, "default": %d, "description": "The most text to answer with."}}}`, guest.MaxFetchedURL, guest.MaxFetchedText, usualBytes)),
		Result: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["url", "status", "mime", "title", "bytes", "truncated", "error"], "properties": {
			"url": {"type": "string"}, "status": {"type": "integer"}, "mime": {"type": "string"}, "title": {"type": "string"}, "bytes": {"type": "integer"}, "truncated": {"type": "boolean"}, "error": {"type": "string"}}}`),
		Command: tools.Command{Positional: []string{"url"}}, Needs: tools.Needs{Workspace: true, Network: true}, Permission: tools.Ask, Timeout: 3 * time.Minute,
	}, tool{commands}.call)
}

type tool struct{ commands Commands }

// answer is what was fetched, for programs. The text is in the content alone.
type answer struct {
	URL       string `json:"url"`
	Status    int    `json:"status"`
	MIME      string `json:"mime"`
	Title     string `json:"title"`
	Bytes     int64  `json:"bytes"`
	Truncated bool   `json:"truncated"`
	Error     string `json:"error"`
}

func (t tool) call(ctx context.Context, c tools.Caller, a struct {
	URL  string `json:"url"`
	Most int    `json:"max_bytes"`
}) (tools.Result, error) {
	if a.Most <= 0 {
		a.Most = usualBytes
	}
	ran, err := t.commands.Exec(ctx, command.Request{TeamID: c.TeamID, WorkspaceID: c.WorkspaceID, ActorID: c.UserID, TimeoutMs: within.Milliseconds(),
		Argv: []string{guest.Self, "fetch", "--max-bytes", strconv.Itoa(min(a.Most, c.Limits.ResultBytes)), "--", a.URL}})
	if err != nil {
		return tools.Result{}, err
	}
	head, text, _ := bytes.Cut(ran.Stdout, []byte("\n"))
	var f guest.Fetched
	if ran.State != command.Completed || ran.ExitCode == nil || *ran.ExitCode != 0 || json.Unmarshal(head, &f) != nil {
		return tools.Result{}, fault.New(fault.Unavailable, "web_fetch_failed", "The page was not fetched: the program for it in the sandbox did not end well. %.300s",
			safetext.OneLine(strings.TrimSpace(ran.Reason+" "+string(ran.Stderr))))
	}
	if f.Refused {
		return tools.Result{}, fault.New(fault.Forbidden, "web_host_refused", "%.500s", safetext.OneLine(f.Error))
	}
	return report(f, strings.ToValidUTF8(string(text), "\uFFFD"), c.Limits.ResultBytes)
}

// report formats a page within a limit. What the sandbox says of it is not trusted.
func report(f guest.Fetched, text string, most int) (tools.Result, error) {
	a := answer{URL: safetext.Cut(safetext.OneLine(f.URL), 1000), Status: f.Status, MIME: safetext.Line(f.MIME), Title: safetext.Line(f.Title), Bytes: f.Bytes, Truncated: f.Cut,
		Error: safetext.Cut(safetext.OneLine(f.Error), 500)}
	if a.Error != "" {
		r, err := tools.Answer(fmt.Sprintf("%s could not be fetched: %s.", a.URL, strings.TrimSuffix(a.Error, ".")), a)
		r.IsError = true
		return r, err
	}
	return tools.Fit(most, func(share int) (tools.Result, error) {
		body := text
		if share < 64 {
			body = strings.ToValidUTF8(text[:min(len(text), most*share/64)], "")
		}
		a.Truncated = f.Cut || len(body) < len(text)
		var b strings.Builder
		fmt.Fprintf(&b, "%s (status %d, %s, %d bytes)", a.URL, a.Status, a.MIME, a.Bytes)
		if a.Title != "" {
			b.WriteString(": " + a.Title)
		}
		switch {
		case body != "":
			b.WriteString("\n\n" + body)
		case a.Bytes > 0 && text == "":
			b.WriteString("\n\nIt is no text that can be shown. A command can download it.")
		}
		if a.Truncated {
			b.WriteString("\n[The rest is left out.]")
		}
		r, err := tools.Answer(b.String(), a)
		r.IsError, r.Truncated = a.Status >= 400, a.Truncated
		return r, err
	})
}
