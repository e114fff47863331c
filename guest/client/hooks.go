package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Hooks is the stream of events from the hooks of the sandbox's agents. Close it in any case.
type Hooks struct {
	body   io.ReadCloser
	cancel context.CancelFunc
}

// Hooks follows the hooks of the sandbox. since is the number of the last call seen, 0 for everything no host has received yet.
// Waiting calls come first, each time, followed by a record that marks their end. A guest without hooks answers fault.Unsupported
// or fault.NotFound.
func (c *Client) Hooks(ctx context.Context, since uint64) (*Hooks, error) {
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.do(ctx, request{method: "GET", path: []string{"hooks"}, query: url.Values{"since": {strconv.FormatUint(since, 10)}}})
	if err != nil {
		cancel()
		return nil, err
	}
	return &Hooks{body: resp.Body, cancel: cancel}, nil
}

// Next waits for the next record. Any error ends the stream: open another with the last number seen.
func (h *Hooks) Next() (guest.HookRecord, error) {
	b, err := guest.ReadRecord(h.body)
	if err != nil {
		return guest.HookRecord{}, unreachable(fmt.Errorf("reading hooks: %w", err))
	}
	var r guest.HookRecord
	if err := json.Unmarshal(b, &r); err != nil {
		return guest.HookRecord{}, wrong("a hook", err)
	}
	if err := checkHook(&r); err != nil {
		return guest.HookRecord{}, wrong("a hook", err)
	}
	return r, nil
}

// checkHook reports whether a record is valid.
func checkHook(r *guest.HookRecord) error {
	if r.Ended != "" {
		if err := guest.CheckID(r.Ended); err != nil {
			return err
		}
	}
	call := r.Call
	if call == nil {
		return nil
	}
	if err := guest.CheckID(call.ID); err != nil {
		return err
	}
	if err := guest.CheckID(call.Process); err != nil {
		return err
	}
	switch {
	case len(call.Event) > guest.MaxHookEvent, len(call.Agent) > 64, call.At < 0:
		return errors.New("a field is out of bounds")
	case len(call.Event) == 0 || call.Event[0] != '{':
		return errors.New("it is not a JSON object")
	}
	return nil
}

// Close ends the stream. A Next under way fails.
func (h *Hooks) Close() error {
	h.cancel()
	return h.body.Close()
}

// AnswerHook answers a waiting call; nil lets the agent decide itself. It returns once the agent's hook has the answer;
// fault.Gone when the hook no longer waits and did not get it. Called again with the same answer, it returns the same result.
func (c *Client) AnswerHook(ctx context.Context, id string, output json.RawMessage) error {
	if err := guest.CheckID(id); err != nil {
		return fault.Wrap(err, fault.Gone, "hook_gone", "The agent's hook no longer waits for an answer.")
	}
	if len(output) > guest.MaxHookAnswer {
		return fault.New(fault.TooLarge, "hook_answer_too_large", "The answer is longer than the agent's hook accepts.")
	}
	return c.ask(ctx, request{method: "POST", path: []string{"hooks", id, "answer"}, json: guest.HookAnswer{Output: output}}, nil)
}
