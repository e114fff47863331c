package browser

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
)

// A recording is a file of its own form. It begins with recordingMagic. Then records follow: a byte that says what it is, u32 milliseconds since
// the start, u32 length, and that many bytes; integers are big-endian. A file that was cut in the middle of a record is good up to there.
const (
	// RecordingType is the media type of recordings.
	RecordingType = "application/vnd.parawork.browser-recording"

	recordingMagic = "PWBR1\n"
	recordHeader   = 'h' // JSON: started_at
	recordFrame    = 'f' // a JPEG
	recordAction   = 'a' // JSON: action
	recordEnd      = 'e' // JSON: why

	recordEvery   = 500 * time.Millisecond // between frames, at least
	recordMost    = 30 * time.Minute
	recordBytes   = 64 << 20
	recordActions = 1000 // that wait to be written
	recordingsMax = 20   // at once, of all workspaces
)

// action is something that an agent or a person did.
type action struct {
	By     string  `json:"by"`   // "" = an agent
	Tool   string  `json:"tool"` // such as click
	Target string  `json:"target,omitempty"`
	Error  string  `json:"error,omitempty"`
	X      float64 `json:"x,omitempty"`
	Y      float64 `json:"y,omitempty"`
	at     time.Time
}

// recordingHead is the first record, with which a server that was killed finds whose recording it is.
type recordingHead struct {
	StartedAt   int64  `json:"started_at"`
	TeamID      string `json:"team_id"`
	WorkspaceID string `json:"workspace_id"`
	SessionID   string `json:"session_id,omitempty"`
	UserID      string `json:"user_id"`
}

// recording is a browser being recorded. Its goroutine alone writes the file.
type recording struct {
	head recordingHead
	file *os.File
	stop chan string // why

	mu      sync.Mutex
	actions []action
}

// act adds an action. Repeated typing of a person is one.
func (r *recording) act(a action) {
	a.at = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.actions); n >= recordActions || n > 0 && a.Tool == "type" && a.By != "" && r.actions[n-1].Tool == "type" && r.actions[n-1].By == a.By {
		return
	}
	r.actions = append(r.actions, a)
}

// note adds an action to the recording, if there is one.
func (c *screen) note(a action) {
	c.mu.Lock()
	r := c.recording
	c.mu.Unlock()
	if r == nil {
		return
	}
	if secrets := c.s.cfg.Secrets; secrets != nil && a.Target != "" {
		known, err := secrets.InAnswers(tenant.In(c.s.life, r.head.TeamID), r.head.TeamID)
		switch {
		case err != nil: // what may be a secret is not kept
			a.Target = ""
		case known != nil:
			a.Target = known.Text(a.Target, nil)
		}
	}
	a.Target = clean(a.Target, 300)
	r.act(a)
}

// record starts or stops the recording of a workspace's browser.
func (c *screen) record(ctx context.Context, teamID, sessionID, userID string, start bool) error {
	s := c.s
	if s.cfg.Save == nil || s.cfg.Recordings == "" {
		return fault.New(fault.Unsupported, "browser_recording_unsupported", "This server keeps no recordings of browsers.")
	}
	c.mu.Lock()
	r := c.recording
	c.mu.Unlock()
	if !start {
		if r == nil {
			return fault.New(fault.Conflict, "browser_not_recording", "The browser is not being recorded.")
		}
		select {
		case r.stop <- "":
		default:
		}
		return nil
	}
	if r != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := os.MkdirAll(s.cfg.Recordings, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(s.cfg.Recordings, id.New("rec")), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	r = &recording{file: file, stop: make(chan string, 1), head: recordingHead{StartedAt: s.cfg.Now().UnixMilli(), TeamID: teamID, WorkspaceID: c.workspaceID, SessionID: sessionID, UserID: userID}}
	c.mu.Lock()
	taken := c.recording != nil
	if !taken {
		c.recording = r
		c.version++
		c.wake()
	}
	c.mu.Unlock()
	begun := !taken && s.recorders.Add(1) <= recordingsMax && s.work.Go(func() { s.runRecording(c, r) })
	if begun {
		c.recast()
		return nil
	}
	_ = file.Close()
	_ = os.Remove(file.Name())
	if taken { // somebody else was faster
		return nil
	}
	s.recorders.Add(-1)
	c.mu.Lock()
	c.recording = nil
	c.mu.Unlock()
	return fault.New(fault.Unavailable, "browser_recordings_full", "%d browsers are being recorded, which is the limit. Try again later.", recordingsMax)
}

// runRecording records until it is stopped or full, and saves what there is as an artifact.
func (s *Service) runRecording(c *screen, r *recording) {
	why, err := s.writeRecording(c, r)
	c.mu.Lock()
	c.recording = nil
	c.version++
	c.wake()
	c.mu.Unlock()
	s.recorders.Add(-1)
	c.recast()
	s.dropScreen(c)
	if err != nil {
		s.cfg.Log.Warn("a browser could not be recorded any further", "workspace_id", c.workspaceID, "error", err)
	}
	name := r.file.Name()
	_ = r.file.Close()
	if why == stopping {
		return // the next server saves it
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), time.Minute)
	defer cancel()
	if err := s.saveRecording(ctx, name); err != nil {
		s.cfg.Log.Warn("a recording of a browser could not be saved", "workspace_id", c.workspaceID, "error", err)
		c.mu.Lock()
		b := c.b
		c.mu.Unlock()
		if refusal, ok := errors.AsType[*fault.Error](err); ok && b != nil {
			b.mu.Lock()
			b.notice("The recording was not saved. %s", refusal.Message)
			b.mu.Unlock()
		}
	}
}

const stopping = "The server stopped."

func (s *Service) writeRecording(c *screen, r *recording) (why string, err error) {
	started := time.Now()
	size := 0
	put := func(kind byte, at time.Time, body []byte) error {
		head := make([]byte, 9, 9+len(body))
		head[0] = kind
		binary.BigEndian.PutUint32(head[1:], uint32(max(at.Sub(started), 0).Milliseconds()))
		binary.BigEndian.PutUint32(head[5:], uint32(len(body)))
		size += len(head) + len(body)
		_, err := r.file.Write(append(head, body...))
		return err
	}
	putJSON := func(kind byte, at time.Time, v any) error {
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return put(kind, at, raw)
	}
	if _, err := r.file.WriteString(recordingMagic); err != nil {
		return "", err
	}
	if err := putJSON(recordHeader, started, r.head); err != nil {
		return "", err
	}
	var last *Frame
	seen := false
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	for why == "" {
		end := false
		select {
		case <-s.life.Done():
			why = stopping
		case w := <-r.stop:
			why, end = w, true
		case <-tick.C:
		}
		r.mu.Lock()
		actions := r.actions
		r.actions = nil
		r.mu.Unlock()
		for _, a := range actions {
			if err := putJSON(recordAction, a.at, a); err != nil {
				return "", err
			}
		}
		c.mu.Lock()
		frame, running := c.frame, c.b != nil
		c.mu.Unlock()
		if frame != nil && (last == nil || frame.Seq != last.Seq && !bytes.Equal(frame.JPEG(), last.JPEG())) {
			if err := put(recordFrame, frame.At, frame.JPEG()); err != nil {
				return "", err
			}
		}
		last, seen = cmp.Or(frame, last), seen || running
		switch {
		case end:
			return why, putJSON(recordEnd, time.Now(), map[string]string{"why": why})
		case seen && !running:
			why = "The browser ended."
		case size > recordBytes || time.Since(started) > recordMost:
			why = fmt.Sprintf("A recording is at most %s and %d MB.", recordMost, recordBytes>>20)
		}
	}
	return why, putJSON(recordEnd, time.Now(), map[string]string{"why": why})
}

// saveRecording saves a finished file as an artifact, and removes it.
func (s *Service) saveRecording(ctx context.Context, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	head, err := readHead(f)
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = s.cfg.Save(ctx, File{TeamID: head.TeamID, WorkspaceID: head.WorkspaceID, SessionID: head.SessionID, UserID: head.UserID,
		Name: "browser-" + time.UnixMilli(head.StartedAt).UTC().Format("2006-01-02-150405") + ".pwbr", MIME: RecordingType, Body: f, Size: info.Size()})
	switch {
	case err == nil, fault.Is(err, fault.NotFound):
		return os.Remove(name)
	case fault.Is(err, fault.Quota), fault.Is(err, fault.TooLarge): // files that may not be saved must not pile up
		return errors.Join(err, os.Remove(name))
	}
	return err // tried again when the server starts
}

// readHead reads whose recording a file is.
func readHead(r io.Reader) (h recordingHead, err error) {
	buf := make([]byte, len(recordingMagic)+9)
	if _, err = io.ReadFull(r, buf); err != nil || !strings.HasPrefix(string(buf), recordingMagic) || buf[len(recordingMagic)] != recordHeader {
		return h, errors.Join(err, errors.New("this is no recording of a browser"))
	}
	raw := make([]byte, min(binary.BigEndian.Uint32(buf[len(recordingMagic)+5:]), 4096))
	if _, err = io.ReadFull(r, raw); err != nil {
		return h, err
	}
	return h, json.Unmarshal(raw, &h)
}

// recoverRecordings saves what a server that ended was recording.
func (s *Service) recoverRecordings(ctx context.Context) {
	if s.cfg.Recordings == "" || s.cfg.Save == nil {
		return
	}
	names, err := filepath.Glob(filepath.Join(s.cfg.Recordings, "rec_*"))
	if err != nil {
		return
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.ModTime().After(s.born) {
			continue // it is being recorded now
		}
		if err := s.saveRecording(ctx, name); err != nil {
			s.cfg.Log.Warn("a recording of a browser could not be saved", "error", err)
		}
		if !tasks.Sleep(ctx, time.Millisecond) {
			return
		}
	}
}
