package remote

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// Sandboxes uses the API's sandboxes without a repository. A method's sandbox is an id, or the key of one of the caller's own.
type Sandboxes struct{ a *API }

// Sandboxes returns the operations on sandboxes without a repository.
func (a *API) Sandboxes() Sandboxes { return Sandboxes{a} }

// Sandbox is a sandbox as the API shows it.
type Sandbox struct {
	ID, Key, Purpose, State, Executor string
	UserID                            string `json:"user_id"`
	EndsAt                            int64  `json:"ends_at"`
}

// Create makes a sandbox, or finds the one with the key that is asked for. It returns the API's object.
func (s Sandboxes) Create(ctx context.Context, ask map[string]any) (json.RawMessage, error) {
	team, err := s.a.team(ctx, "")
	if err != nil {
		return nil, err
	}
	return s.a.send(ctx, http.MethodPost, path("teams", team, "sandboxes"), nil, ask, maxAnswer)
}

// List returns the live sandboxes that the caller may manage, as the API shows them.
func (s Sandboxes) List(ctx context.Context) ([]json.RawMessage, error) {
	team, err := s.a.team(ctx, "")
	if err != nil {
		return nil, err
	}
	all := []json.RawMessage{}
	for cursor := ""; ; {
		var list struct {
			Items []json.RawMessage
			Next  string `json:"next_cursor"`
		}
		if err := s.a.get(ctx, path("teams", team, "sandboxes"), paged(100, cursor), &list); err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		if cursor = list.Next; cursor == "" {
			return all, nil
		}
	}
}

// find returns the id of a sandbox.
func (s Sandboxes) find(ctx context.Context, sandbox string) (string, error) {
	if strings.HasPrefix(sandbox, "asb_") {
		return sandbox, nil
	}
	var me struct{ User struct{ ID string } }
	if err := s.a.get(ctx, path("me"), nil, &me); err != nil {
		return "", err
	}
	all, err := s.List(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, raw := range all {
		var sb Sandbox
		if json.Unmarshal(raw, &sb) == nil && sb.Key == sandbox && sb.UserID == me.User.ID && sandbox != "" {
			found = append(found, sb.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fault.New(fault.NotFound, "sandbox_not_found", "You have no live sandbox with the id or key %q.", cut(sandbox, 200))
	case 1:
		return found[0], nil
	}
	return "", fault.New(fault.Conflict, "sandbox_key_ambiguous", "You have %d sandboxes with the key %q, for different purposes. Name one by its id: %s.", len(found), cut(sandbox, 200), strings.Join(found, ", "))
}

// do makes a request about a sandbox and returns the object that answers it.
func (s Sandboxes) do(ctx context.Context, method, sandbox string, query url.Values, in any, segments ...string) (json.RawMessage, error) {
	at, err := s.find(ctx, sandbox)
	if err != nil {
		return nil, err
	}
	return s.a.send(ctx, method, path(append([]string{"sandboxes", at}, segments...)...), query, in, maxAnswer)
}

// Exec runs a command and returns the API's object of it, once it has ended. What the command prints goes to onEvent, if that is given.
func (s Sandboxes) Exec(ctx context.Context, sandbox string, ask any, onEvent func(name string, data json.RawMessage) error) (json.RawMessage, error) {
	return s.run(ctx, sandbox, "exec", "command", ask, onEvent)
}

// Code runs code as Exec runs a command.
func (s Sandboxes) Code(ctx context.Context, sandbox string, ask any, onEvent func(name string, data json.RawMessage) error) (json.RawMessage, error) {
	return s.run(ctx, sandbox, "code", "run", ask, onEvent)
}

func (s Sandboxes) run(ctx context.Context, sandbox, operation, last string, ask any, onEvent func(string, json.RawMessage) error) (json.RawMessage, error) {
	if onEvent == nil {
		return s.do(ctx, http.MethodPost, sandbox, nil, ask, operation)
	}
	raw, err := json.Marshal(ask)
	if err != nil {
		return nil, fmt.Errorf("writing a request: %w", err)
	}
	resp, err := s.open(ctx, http.MethodPost, sandbox, nil, bytes.NewReader(raw), map[string]string{"Content-Type": "application/json", "Accept": "text/event-stream"}, operation)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return events(resp.Body, last, onEvent)
}

// open makes a request about a sandbox and returns its answer, whose body the caller closes.
func (s Sandboxes) open(ctx context.Context, method, sandbox string, query url.Values, body io.Reader, header map[string]string, segments ...string) (*http.Response, error) {
	at, err := s.find(ctx, sandbox)
	if err != nil {
		return nil, err
	}
	address := s.a.cfg.Server + path(append([]string{"sandboxes", at}, segments...)...)
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return s.a.open(ctx, method, address, body, header)
}

// events calls onEvent with each event of a stream until the last, whose data it returns.
func events(stream io.Reader, last string, onEvent func(name string, data json.RawMessage) error) (json.RawMessage, error) {
	return identified(stream, last, func(_, name string, data json.RawMessage) error { return onEvent(name, data) })
}

// identified is events with the ID of each.
func identified(stream io.Reader, last string, onEvent func(id, name string, data json.RawMessage) error) (json.RawMessage, error) {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxAnswer)
	var id, name string
	var data []byte
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimPrefix(value, " "); {
		case field == "id":
			id = value
		case field == "event":
			name = value
		case field == "data":
			data = append(data, value...)
		case lines.Text() != "":
		case name == "error":
			var p tools.Problem
			if err := json.Unmarshal(data, &p); err != nil {
				return nil, cutOff(err)
			}
			return nil, &fault.Error{Kind: fault.Unavailable, Code: p.Code, Message: p.Message, Details: p.Details}
		case name == last:
			return data, nil
		default:
			if len(data) > 0 {
				if err := onEvent(id, name, data); err != nil {
					return nil, err
				}
			}
			name, data = "", nil
		}
	}
	return nil, cutOff(cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// Read writes a file of a sandbox to w.
func (s Sandboxes) Read(ctx context.Context, sandbox, file string, w io.Writer) error {
	resp, err := s.open(ctx, http.MethodGet, sandbox, url.Values{"path": {file}}, nil, nil, "files")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return cutOff(err)
	}
	return nil
}

// Write makes a file of a sandbox hold what r has.
func (s Sandboxes) Write(ctx context.Context, sandbox, file string, r io.Reader) (json.RawMessage, error) {
	resp, err := s.open(ctx, http.MethodPut, sandbox, url.Values{"path": {file}}, r, map[string]string{"Content-Type": "application/octet-stream"}, "files")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return whole(resp.Body, maxAnswer)
}

// Files lists a folder of a sandbox.
func (s Sandboxes) Files(ctx context.Context, sandbox, folder string) (json.RawMessage, error) {
	query := url.Values{}
	if folder != "" {
		query.Set("path", folder)
	}
	return s.do(ctx, http.MethodGet, sandbox, query, nil, "files", "list")
}

// Remove removes a file of a sandbox; a folder with everything in it if recursive.
func (s Sandboxes) Remove(ctx context.Context, sandbox, file string, recursive bool) error {
	_, err := s.do(ctx, http.MethodDelete, sandbox, url.Values{"path": {file}, "recursive": {fmt.Sprint(recursive)}}, nil, "files")
	return err
}

// Port returns how to reach a port of a sandbox.
func (s Sandboxes) Port(ctx context.Context, sandbox, port string) (json.RawMessage, error) {
	return s.do(ctx, http.MethodGet, sandbox, nil, nil, "ports", port)
}

// Extend lets a sandbox live at least so long from now.
func (s Sandboxes) Extend(ctx context.Context, sandbox string, by time.Duration) (json.RawMessage, error) {
	return s.do(ctx, http.MethodPost, sandbox, nil, map[string]any{"seconds": int64(by.Seconds())}, "extend")
}

// End ends a sandbox.
func (s Sandboxes) End(ctx context.Context, sandbox string) error {
	_, err := s.do(ctx, http.MethodDelete, sandbox, nil, nil)
	return err
}
