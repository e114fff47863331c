package machines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// Requests about a machine's folders. The machine's owner decides there what to answer; the answer is validated here and, where it is more
// than text, by the caller.

// Time limits of requests.
const (
	folderTime   = time.Minute
	deliverTime  = 12 * time.Minute // the machine receives and checks a pack, and its owner may be asked
	copyTime     = 5 * time.Minute
	folderAnswer = 4 << 20 // bytes
	maxRefusal   = 64 << 10
)

// ask makes a call to a connected machine, or sends a command if body is not nil. The caller closes the response's body.
func (s *Service) ask(ctx context.Context, id, method, path string, body any) (*http.Response, error) {
	m, ok := s.Machine(ctx, id)
	if !ok {
		return nil, errNotFound
	}
	link, ok := s.Link(id)
	if !ok {
		return nil, offline(m)
	}
	ctx = s.named(ctx)
	req := (&http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: "runner", Path: path}, Host: "runner", Header: http.Header{}}).WithContext(ctx)
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("calling machine %s: %w", id, err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		if err := s.Sign(ctx, id, req, b); err != nil {
			return nil, fmt.Errorf("signing a command for machine %s: %w", id, err)
		}
	}
	resp, err := link.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fault.Wrap(err, fault.Unavailable, wire.CodeOffline, "The connection to %s was cut. Try again in a moment.", m.Name)
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, remoteError(m, resp)
	}
	return resp, nil
}

// named adds the user's name to an order.
func (s *Service) named(ctx context.Context) context.Context {
	o := wire.OrderOf(ctx)
	if o.UserID == "" || o.User != "" {
		return ctx
	}
	if a, err := s.cfg.Accounts.Actor(ctx, o.UserID); err == nil {
		o.User = a.User.Name
	}
	return wire.WithOrder(ctx, o)
}

func offline(m Machine) error {
	return fault.New(fault.Unavailable, wire.CodeOffline, "%s is offline. Start it there with: parawork runner", m.Name).With("runner_id", m.ID)
}

func wrongAnswer(m Machine, err error) error {
	return fault.Wrap(err, fault.Unavailable, "runner_wrong_answer", "%s gave an answer that cannot be right. Update the program there: parawork runner update.", m.Name)
}

// refusals are the kinds of errors a machine may answer with. It has no say about authentication on the server.
var refusals = []fault.Kind{fault.Invalid, fault.Forbidden, fault.NotFound, fault.Conflict, fault.TooLarge, fault.RateLimited, fault.Unavailable, fault.Gone,
	fault.Unsupported, fault.Timeout, fault.DiskFull}

var refusalCode = regexp.MustCompile(`^[a-z][a-z0-9_]{1,59}$`)

// reported reads a machine's refusal.
func remoteError(m Machine, resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	var e wire.Error
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	message := words(e.Message, 600)
	if err != nil || message == "" || !refusalCode.MatchString(e.Code) || !slices.Contains(refusals, fault.Kind(e.Kind)) {
		return wrongAnswer(m, errors.Join(err, fmt.Errorf("status %d", resp.StatusCode)))
	}
	return fault.New(fault.Kind(e.Kind), e.Code, "%s", message).With("runner_id", m.ID)
}

// have makes a call and decodes the answer into v.
func (s *Service) have(ctx context.Context, id string, within time.Duration, method, path string, body, v any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fault.New(fault.Timeout, "runner_timeout", "The machine has not answered within %s. Its owner may have to allow the request there.", within))
	defer cancel()
	resp, err := s.ask(ctx, id, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, folderAnswer+1))
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil && len(b) > folderAnswer {
		err = fmt.Errorf("more than %d bytes", folderAnswer)
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		m, _ := s.Machine(ctx, id) // a machine that is gone has no name to show
		return wrongAnswer(m, err)
	}
	return nil
}

// Folders returns those a machine's owner allows: as the machine reports now or, while it is offline, as last reported.
func (s *Service) Folders(ctx context.Context, id string) ([]wire.Folder, error) {
	m, ok := s.Machine(ctx, id)
	if !ok {
		return nil, errNotFound
	}
	if !m.Online {
		return m.Hello.Folders, nil
	}
	var got struct {
		Items []wire.Folder `json:"items"`
	}
	if err := s.have(ctx, id, folderTime, http.MethodGet, "/v1/folders", nil, &got); err != nil {
		return nil, err
	}
	if len(got.Items) > maxFolders {
		return nil, wrongAnswer(m, fmt.Errorf("%d folders", len(got.Items)))
	}
	out := make([]wire.Folder, 0, len(got.Items))
	for _, f := range got.Items {
		f, err := checkFolder(f)
		if err != nil {
			return nil, wrongAnswer(m, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// Bundle requests a git bundle of what a folder has and the server has not. The caller closes it, and validates what it reads.
func (s *Service) Bundle(ctx context.Context, id string, ask wire.BundleAsk) (io.ReadCloser, error) {
	resp, err := s.ask(ctx, id, http.MethodPost, "/v1/folders/bundle", ask)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Lend asks which commits of a folder's repository a workspace there can share.
func (s *Service) Lend(ctx context.Context, id string, ask wire.LendRequest) (wire.Lent, error) {
	var got wire.Lent
	err := s.have(ctx, id, folderTime, http.MethodPost, "/v1/folders/borrow", ask, &got)
	return got, err
}

// CopyIgnored makes the machine copy ignored files of a folder into a sandbox.
func (s *Service) CopyIgnored(ctx context.Context, id string, ask wire.CopyAsk) (wire.Copied, error) {
	var got wire.Copied
	err := s.have(ctx, id, copyTime, http.MethodPost, "/v1/folders/copy", ask, &got)
	return got, err
}

// Deliver makes the machine put the branch of a sandbox's workspace into the repository of its folder.
func (s *Service) Deliver(ctx context.Context, id string, ask wire.DeliverAsk) (wire.Delivered, error) {
	var got wire.Delivered
	err := s.have(ctx, id, deliverTime, http.MethodPost, "/v1/folders/deliver", ask, &got)
	return got, err
}
