package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// Doer carries a request to the API. *http.Client is one; the server has one that calls its own handler.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Config configures an API.
type Config struct {
	Doer   Doer   // adds what says who asks
	Server string // address of the server, such as https://parawork.example.com
	Team   string // slug of the team where a call names none; "" = the only one of whoever asks
	Client string // the program that calls, for the audit; cleaned and cut
	Now    func() time.Time
}

// API calls tools for one client. Safe for concurrent use.
type API struct{ cfg Config }

// New returns an API.
func New(cfg Config) *API {
	cfg.Server = strings.TrimRight(cfg.Server, "/")
	cfg.Client = CleanClient(cfg.Client)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &API{cfg}
}

// ClientHeader names the program that makes a request, for the audit. It is what the program says of itself and proves nothing.
const ClientHeader = "X-Parawork-Client"

// maxClient bounds the name of a client.
const maxClient = 80

// CleanClient makes a client's name fit for the audit: one line of printable text, cut.
func CleanClient(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	return cut(s, maxClient)
}

// Bounds of an answer of the API.
const (
	maxAnswer  = 8 << 20
	maxProblem = 64 << 10
)

// path joins path segments below the API's base.
func path(segments ...string) string {
	var b strings.Builder
	b.WriteString("/api/v1")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// send makes a request and returns the answer, at most a limit of bytes of it; an error answer becomes a *fault.Error with its code, message and details.
func (a *API) send(ctx context.Context, method, path string, query url.Values, in any, most int64) ([]byte, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("writing a request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	address := a.cfg.Server + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	header := map[string]string{}
	if in != nil {
		header["Content-Type"] = "application/json"
	}
	resp, err := a.open(ctx, method, address, body, header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return whole(resp.Body, most)
}

// open makes a request and returns the answer, whose body the caller closes. An error answer becomes a *fault.Error.
func (a *API) open(ctx context.Context, method, address string, body io.Reader, header map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	if a.cfg.Client != "" {
		req.Header.Set(ClientHeader, a.cfg.Client)
	}
	resp, err := a.cfg.Doer.Do(req)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); method != http.MethodGet && !(ok && op.Op == "dial") {
			return nil, fault.Wrap(err, fault.Unavailable, "server_unreachable", "Parawork did not answer: %s. What was asked may have been done: look before you repeat it.", reason(err))
		}
		return nil, fault.Wrap(err, fault.Unavailable, "server_unreachable", "Parawork did not answer: %s. Check the server's address, then try again.", reason(err))
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, problemOf(resp)
	}
	return resp, nil
}

// whole reads an answer of at most a number of bytes.
func whole(r io.Reader, most int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, cutOff(err)
	}
	if int64(len(raw)) > most {
		return nil, fault.New(fault.TooLarge, "answer_too_large", "The server's answer has more than %d bytes. Ask for less, or read it in Parawork.", most)
	}
	return raw, nil
}

func cutOff(err error) error {
	return fault.Wrap(err, fault.Unavailable, "server_unreachable", "Parawork's answer was cut off: %s. What was asked may have been done.", reason(err))
}

// reason is an error of HTTP without the address, which the user knows.
func reason(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

func problemOf(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // what has arrived may be enough
	var p tools.Problem
	if json.Unmarshal(raw, &p) != nil || p.Code == "" {
		return fault.New(fault.Unavailable, "unexpected_answer", "The server answered with status %d, and not as Parawork does. Check its address.", resp.StatusCode)
	}
	return &fault.Error{Kind: kindOf(resp.StatusCode), Code: p.Code, Message: p.Message, Details: p.Details}
}

// kindOf is the kind of fault that a status says.
func kindOf(status int) fault.Kind {
	switch status {
	case http.StatusUnauthorized:
		return fault.Unauthorized
	case http.StatusForbidden:
		return fault.Forbidden
	case http.StatusNotFound:
		return fault.NotFound
	case http.StatusConflict:
		return fault.Conflict
	case http.StatusTooManyRequests:
		return fault.RateLimited
	}
	if status >= 500 {
		return fault.Unavailable
	}
	return fault.Invalid
}

// get reads an object of the API.
func (a *API) get(ctx context.Context, path string, query url.Values, out any) error {
	return a.do(ctx, http.MethodGet, path, query, nil, out)
}

// do makes a request and reads the object that answers it.
func (a *API) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	raw, err := a.send(ctx, method, path, query, in, maxAnswer)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fault.Wrap(err, fault.Unavailable, "unexpected_answer", "The server's answer is not what Parawork's API answers. Check its address and its version.")
	}
	return nil
}

// Check makes the simplest request: an error says that the server cannot be reached, or why it refuses whoever asks.
func (a *API) Check(ctx context.Context) error { return a.get(ctx, path("me"), nil, nil) }

// Toolbox returns the tools that can be called in the workspaces of a team.
func (a *API) Toolbox(ctx context.Context) ([]tools.Spec, error) {
	team, err := a.team(ctx, "")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Name, Title, Description, Group string
			Arguments, Result               json.RawMessage
			Unlisted                        bool
			Command                         struct {
				Positional []string
				Stdin      string
				Paths      []string
			}
			Needs struct {
				Workspace, Writes, Network bool
			}
			Permission tools.Permission
			TimeoutMs  int64 `json:"timeout_ms"`
		}
	}
	if err := a.get(ctx, path("teams", team, "tools"), nil, &list); err != nil {
		return nil, err
	}
	specs := make([]tools.Spec, len(list.Items))
	for i, t := range list.Items {
		specs[i] = tools.Spec{Name: t.Name, Title: t.Title, Description: t.Description, Group: t.Group, Arguments: t.Arguments, Result: t.Result, Unlisted: t.Unlisted,
			Command: tools.Command{Positional: t.Command.Positional, Stdin: t.Command.Stdin, Paths: t.Command.Paths}, Permission: t.Permission,
			Needs: tools.Needs{Workspace: t.Needs.Workspace, Writes: t.Needs.Writes, Network: t.Needs.Network}, Timeout: time.Duration(t.TimeoutMs) * time.Millisecond}
	}
	return specs, nil
}

// CallIn calls a tool in a workspace, which is given by its key or its id.
func (a *API) CallIn(ctx context.Context, workspace, name string, args json.RawMessage) (tools.Result, error) {
	id, err := a.workspaceID(ctx, "", workspace)
	if err != nil {
		return tools.Result{}, err
	}
	var r struct {
		Content []struct {
			Text     string `json:"text"`
			MIMEType string `json:"mime_type"`
			Data     []byte `json:"data"`
		} `json:"content"`
		Structured json.RawMessage `json:"structured"`
		IsError    bool            `json:"is_error"`
		Truncated  bool            `json:"truncated"`
	}
	if err := a.do(ctx, http.MethodPost, path("workspaces", id, "tools", name), nil, map[string]any{"arguments": args}, &r); err != nil {
		return tools.Result{}, err
	}
	out := tools.Result{Structured: r.Structured, IsError: r.IsError, Truncated: r.Truncated}
	if string(r.Structured) == "null" {
		out.Structured = nil
	}
	for _, c := range r.Content {
		out.Content = append(out.Content, tools.Content{Text: c.Text, MIME: c.MIMEType, Data: c.Data})
	}
	return out, nil
}

// team is the team a call works in.
func (a *API) team(ctx context.Context, named string) (string, error) {
	if named == "" {
		named = a.cfg.Team
	}
	if named != "" {
		return named, nil
	}
	var me struct {
		Teams []struct {
			Slug string `json:"slug"`
		} `json:"teams"`
	}
	if err := a.get(ctx, path("me"), nil, &me); err != nil {
		return "", err
	}
	switch len(me.Teams) {
	case 0:
		return "", fault.New(fault.Invalid, "team_needed", "You are in no team yet. Ask an owner of a team to invite you.")
	case 1:
		return me.Teams[0].Slug, nil
	}
	slugs := make([]string, 0, len(me.Teams))
	for _, t := range me.Teams[:min(len(me.Teams), 50)] {
		slugs = append(slugs, t.Slug)
	}
	return "", fault.New(fault.Invalid, "team_needed", "You are in several teams: name one as team. They are %s.", strings.Join(slugs, ", ")).With("teams", slugs)
}

// workspaceID is the id of a workspace given by its id or its key, such as PW-12.
func (a *API) workspaceID(ctx context.Context, team, given string) (string, error) {
	key := strings.ToUpper(given)
	if !strings.HasPrefix(key, "PW-") {
		return given, nil
	}
	slug, err := a.team(ctx, team)
	if err != nil {
		return "", err
	}
	var list struct{ Items []workspace }
	if err := a.get(ctx, path("teams", slug, "workspaces"), url.Values{"key": {key}, "show": {"all"}}, &list); err != nil {
		return "", err
	}
	if len(list.Items) == 0 {
		return "", fault.New(fault.NotFound, "workspace_not_found", "The team %s has no workspace %s that you may see. workspace_list lists them.", slug, key)
	}
	return list.Items[0].ID, nil
}

// projectID is the id of a project given by its id or its name.
func (a *API) projectID(ctx context.Context, team, given string) (string, error) {
	if strings.HasPrefix(given, "prj_") {
		return given, nil
	}
	cursor := ""
	for range 20 {
		var list struct {
			Items []struct{ ID, Name string }
			Next  string `json:"next_cursor"`
		}
		if err := a.get(ctx, path("teams", team, "projects"), paged(100, cursor), &list); err != nil {
			return "", err
		}
		for _, p := range list.Items {
			if p.Name == given || p.ID == given {
				return p.ID, nil
			}
		}
		if cursor = list.Next; cursor == "" {
			break
		}
	}
	return "", fault.New(fault.NotFound, "project_not_found", "The team %s has no project %q. project_list lists them.", team, cut(given, 100))
}

// paged is the query of one page of a list.
func paged(limit int, cursor string) url.Values {
	q := url.Values{"limit": {fmt.Sprint(limit)}}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return q
}

// cut returns the beginning of a text, at most a number of bytes, and says with an ellipsis that there is more.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const more = "..."
	most -= len(more)
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + more
}
