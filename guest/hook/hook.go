// Package hook is the program that an agent's hooks run: it passes the agent's event to the guest in its sandbox, and prints the
// answer. It must never delay an agent or make it fail: without a guest, or without an answer, it makes no decision.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"time"

	"github.com/parawork/parawork/guest"
)

// Times of a hook.
const (
	dialIn  = 500 * time.Millisecond // the guest's socket is on this machine
	writeIn = 2 * time.Second
	readIn  = 5 * time.Second // an agent sends its event at once
)

// maxInput bounds what is read from an agent: it may contain whole files.
const maxInput = 32 << 20

// Run is `parawork-guest hook [--wait DURATION] AGENT`. It returns an error only for wrong arguments.
func Run(ctx context.Context, args []string, env func(string) string, in io.Reader, out io.Writer) error {
	fs := flag.NewFlagSet("parawork-guest hook", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	wait := fs.Duration("wait", 0, "how long to wait for an answer")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return errors.New("hook: name the agent")
	}
	now := time.Now()
	event, ok := shrink(read(in))
	sock, token := env(guest.EnvHooks), env(guest.EnvHookToken)
	if !ok || sock == "" || token == "" {
		return nil
	}
	req, err := json.Marshal(guest.HookRequest{Token: token, Agent: fs.Arg(0), Waits: *wait > 0, At: now.UnixMilli(), Event: event})
	if err != nil {
		return nil
	}
	ask(ctx, sock, req, *wait, out)
	return nil
}

// read returns the agent's whole event, nil when it is too long or does not come. An agent must not find its pipe broken, so an
// event that is too long is read to its end too.
func read(in io.Reader) []byte {
	got := make(chan []byte, 1)
	go func() { // ends with its reader; the program does in any case
		b, err := io.ReadAll(io.LimitReader(in, maxInput+1))
		if err != nil || len(b) > maxInput {
			_, _ = io.Copy(io.Discard, in)
			b = nil
		}
		got <- b
	}()
	select {
	case b := <-got:
		return b
	case <-time.After(readIn):
		return nil
	}
}

// ask passes req to the guest and prints the answer if it comes in time.
func ask(ctx context.Context, sock string, req []byte, wait time.Duration, out io.Writer) {
	d := net.Dialer{Timeout: dialIn}
	conn, err := d.DialContext(ctx, "unix", sock)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(writeIn))
	if _, err := conn.Write(req); err != nil {
		return
	}
	if wait <= 0 {
		// The guest closes when it has accepted it. The agent's next hook must not arrive before this one.
		_, _ = conn.Read(make([]byte, 1))
		return
	}
	_ = conn.SetDeadline(time.Now().Add(wait))
	b, err := io.ReadAll(io.LimitReader(conn, guest.MaxHookAnswer+1))
	if err != nil || len(b) > guest.MaxHookAnswer || len(b) > 0 && !json.Valid(b) {
		return
	}
	if _, err := out.Write(b); err == nil && ctx.Err() == nil {
		_, _ = conn.Write([]byte{'k'}) // the agent has it
	}
}

// What remains of an event that is too long: its long texts are cut, then only its names are kept.
const (
	longText = 8 << 10
	maxEvent = guest.MaxHookEvent - 4<<10 // room for the other fields
)

// shrink makes an event short enough to be sent; false for one that is not a JSON object.
func shrink(raw []byte) (json.RawMessage, bool) {
	var doc map[string]any
	if json.Unmarshal(raw, &doc) != nil || doc == nil {
		return nil, false
	}
	delete(doc, "tool_response") // nobody uses it, and it may be large
	for _, limit := range []int{1 << 30, longText, 256} {
		b, err := json.Marshal(cutTexts(doc, limit))
		if err == nil && len(b) <= maxEvent {
			return b, true
		}
	}
	small := map[string]any{}
	for _, name := range []string{"session_id", "hook_event_name", "tool_name", "tool_use_id", "prompt_id", "turn_id"} {
		if s, ok := doc[name].(string); ok && len(s) <= longText {
			small[name] = s
		}
	}
	b, err := json.Marshal(small)
	return b, err == nil && len(b) <= maxEvent
}

func cutTexts(v any, limit int) any {
	switch v := v.(type) {
	case string:
		if len(v) > limit {
			return v[:limit] + "…"
		}
		return v
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = cutTexts(v[i], limit)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = cutTexts(v[k], limit)
		}
		return out
	}
	return v
}
