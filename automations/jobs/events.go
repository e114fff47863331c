package jobs

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/transcript"
)

// Kinds of events.
const (
	StatusEvent    = "status"    // the job has changed
	TextEvent      = "text"      // what the agent said, or what its terminal printed
	ArtifactsEvent = "artifacts" // what the job left
	EndEvent       = "end"       // the job has ended, and no more events come
)

// Event is what happened to a job. ID is where a stream that continues after it begins.
type Event struct {
	Kind string
	ID   string
	Job  Job  // of every kind but TextEvent
	Text Text // of TextEvent
}

// Text is a message of the agent, which replaces an earlier one with its ID, or with no ID the next lines of its terminal.
type Text struct{ ID, Text string }

// cursor is a position in a job's events.
type cursor struct {
	version int64 // of the job
	text    int64 // a line of the conversation, or an offset of the terminal's output
	left    bool  // the artifacts were sent
}

func (c cursor) String() string {
	if c.left {
		return fmt.Sprintf("%d-%d-a", c.version, c.text)
	}
	return fmt.Sprintf("%d-%d", c.version, c.text)
}

func parseCursor(id string) (c cursor, err error) {
	if id == "" {
		return c, nil
	}
	rest, left := strings.CutSuffix(id, "-a")
	a, b, ok := strings.Cut(rest, "-")
	c.left = left
	if c.version, err = strconv.ParseInt(a, 10, 64); err == nil && ok {
		c.text, err = strconv.ParseInt(b, 10, 64)
	}
	if err != nil || !ok || c.version < 0 || c.text < 0 {
		return cursor{}, fault.New(fault.Invalid, "invalid_parameter", "Last-Event-ID must be the ID of an earlier event.").With("field", "Last-Event-ID")
	}
	return c, nil
}

const (
	textEvery = 500 * time.Millisecond // how often text is looked for
	mostItems = 1000                   // of a conversation at once
	mostBytes = 64 << 10               // of a terminal at once
)

// Follow calls each with what happens to a job after the event with an ID, "" = from the beginning, until the job has ended, ctx ends or each
// fails. A follower that is slow misses statuses, never the end. Errors: not_found, invalid_parameter.
func (s *Service) Follow(ctx context.Context, id, after string, each func(Event) error) error {
	at, err := parseCursor(after)
	if err != nil {
		return err
	}
	j, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	ctx = tenant.In(ctx, j.TeamID)
	tick := time.NewTicker(textEvery)
	defer tick.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if j, err = s.Get(ctx, id); err != nil {
			return err
		}
		if j.Version > at.version {
			at.version = j.Version
			if err := each(Event{Kind: StatusEvent, ID: at.String(), Job: j}); err != nil {
				return err
			}
		}
		before := at.text
		if err := s.texts(ctx, j, &at, each); err != nil {
			return err
		}
		if ctx.Err() == nil && at.text != before { // there may be more
			continue
		}
		if j.Status.Ended() {
			if len(j.Files) > 0 && !at.left {
				at.left = true
				if err := each(Event{Kind: ArtifactsEvent, ID: at.String(), Job: j}); err != nil {
					return err
				}
			}
			return each(Event{Kind: EndEvent, ID: at.String(), Job: j})
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// texts sends what the agent said since a position, and moves it.
func (s *Service) texts(ctx context.Context, j Job, at *cursor, each func(Event) error) error {
	if j.StartedAt == 0 {
		return nil
	}
	if j.Request.Agent != agents.Command {
		q := conversation.Query{Since: at.text, Limit: mostItems, Kinds: []conversation.Kind{conversation.Text}, Oldest: at.text == 0}
		page, err := s.cfg.Sessions.Conversation(ctx, j.SessionID, q)
		if err != nil || page.Record != transcript.None {
			return s.said(ctx, j, page, at, each, err)
		}
	}
	raw, offset, _, err := s.cfg.Terminals.Output(ctx, j.SessionID, at.text, mostBytes)
	if err != nil { // it is about to begin, or is gone with its sandbox
		return nil
	}
	if n := bytes.LastIndexByte(raw, '\n'); !j.Status.Ended() && len(raw) < mostBytes {
		raw = raw[:n+1] // whole lines
	}
	if len(raw) == 0 {
		return nil
	}
	at.text = offset + int64(len(raw))
	text := printed(raw)
	if text = s.masked(ctx, j.TeamID, text); text == "" {
		return nil
	}
	return each(Event{Kind: TextEvent, ID: at.String(), Text: Text{Text: text}})
}

// said sends the messages of a conversation.
func (s *Service) said(ctx context.Context, j Job, page sessions.Conversation, at *cursor, each func(Event) error, err error) error {
	if err != nil { // it is about to begin, or is gone with its sandbox
		return nil
	}
	for _, it := range page.Items {
		at.text = max(at.text, it.Version)
		if text := strings.TrimSpace(it.Text); it.Parent == "" && text != "" {
			if err := each(Event{Kind: TextEvent, ID: at.String(), Text: Text{ID: it.ID, Text: s.masked(ctx, j.TeamID, text)}}); err != nil {
				return err
			}
		}
	}
	if !page.More {
		at.text = max(at.text, page.Version)
	}
	return nil
}

// controls matches what a terminal does not show: control sequences, and control characters but tabs and line feeds.
var controls = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]`)

// printed is what a program printed, as text.
func printed(raw []byte) string {
	return strings.ToValidUTF8(string(controls.ReplaceAll(raw, nil)), "")
}
