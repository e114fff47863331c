package code

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/redact"
)

// run is a run under way.
type run struct {
	Run
	events  chan Event // nil when nobody streams; what does not fit is in the record
	done    chan struct{}
	release func()                                     // of the sandbox, which is in use while code runs
	maskers map[guest.KernelMessageType]*redact.Masker // by output; only who reads the kernel uses them

	hearMu sync.Mutex // one message at a time

	mu        sync.Mutex
	size      int   // bytes of Outputs
	announced int64 // ms UTC: when the last event told of outputs
}

// announceEvery bounds how often an event tells of new outputs.
const announceEvery = 300 * time.Millisecond

// snapshot returns the record as it is now.
func (r *run) snapshot() Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.Run
	out.Outputs = append([]Output(nil), r.Outputs...)
	return out
}

// hear takes one message of the kernel about this run.
func (r *run) hear(k *kernel, m guest.KernelMessage) {
	r.hearMu.Lock()
	defer r.hearMu.Unlock()
	switch m.Type {
	case guest.KernelStarted:
		r.tell(Event{Begun: true, RunID: r.ID})
	case guest.KernelStdout, guest.KernelStderr:
		masker := r.maskers[m.Type]
		if text := strings.ToValidUTF8(string(masker.Write([]byte(m.Text))), "\uFFFD"); text != "" {
			r.add(k, Output{Type: string(m.Type), Text: text})
		}
	case guest.KernelResult:
		if o := r.result(k, m); len(o.Data)+len(o.Artifacts) > 0 {
			r.add(k, o)
		}
	case guest.KernelError:
		if m.Error == nil {
			return
		}
		e := Error{Name: clip(k.masker.Text(m.Error.Name), 200), Value: clip(k.masker.Text(m.Error.Value), 8<<10), Traceback: clip(k.masker.Text(m.Error.Traceback), 32<<10)}
		r.mu.Lock()
		if r.Error == nil {
			r.Error = &e
		}
		r.mu.Unlock()
	}
}

// result checks a result's contents: text and pictures are strings, what ends in json is JSON. A large one becomes an artifact.
func (r *run) result(k *kernel, m guest.KernelMessage) Output {
	o := Output{Type: "result", Main: m.Main}
	n := 0
	for mime, raw := range m.Data {
		mime = k.masker.Text(mime)
		if n++; n > 20 || len(mime) > 100 || strings.ContainsFunc(mime, func(c rune) bool { return c <= ' ' || c > '~' }) {
			continue
		}
		var content []byte
		if strings.HasSuffix(mime, "json") {
			raw = maskJSON(k.masker, raw)
			content = raw
		} else {
			var s string
			if json.Unmarshal(raw, &s) != nil {
				continue
			}
			content = []byte(s)
			if binary(mime) {
				decoded, err := base64.StdEncoding.DecodeString(s)
				if err != nil {
					continue
				}
				if len(s) > MaxInline {
					r.keep(k, &o, mime, decoded)
					continue
				}
			} else {
				content = []byte(k.masker.Text(s))
				raw, _ = json.Marshal(string(content)) // a string always encodes
			}
		}
		if len(content) > MaxInline {
			r.keep(k, &o, mime, content)
			continue
		}
		if o.Data == nil {
			o.Data = map[string]json.RawMessage{}
		}
		o.Data[mime] = raw
	}
	return o
}

// maskJSON hides secrets in the strings and names of a JSON document. What cannot be read is left out.
func maskJSON(m *redact.Masker, raw json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return json.RawMessage("null")
	}
	out, err := json.Marshal(masked(m, v))
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

func masked(m *redact.Masker, v any) any {
	switch v := v.(type) {
	case string:
		return m.Text(v)
	case []any:
		for i := range v {
			v[i] = masked(m, v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[m.Text(name)] = masked(m, value)
		}
		return out
	}
	return v
}

// binary reports whether contents of a MIME type travel as base64.
func binary(mime string) bool {
	return strings.HasPrefix(mime, "image/") && mime != "image/svg+xml" || strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "video/") || mime == "application/pdf"
}

// keep saves a content as an artifact. One that cannot be saved is left out, and the record says so.
func (r *run) keep(k *kernel, o *Output, mime string, content []byte) {
	ctx, cancel := context.WithTimeout(k.s.life, time.Minute)
	defer cancel()
	artifactID, err := k.s.cfg.Keep(ctx, r.snapshot(), mime, content)
	if err != nil {
		r.mu.Lock()
		first := !r.Truncated
		r.Truncated = true
		r.mu.Unlock()
		if first { // code can display results without end
			k.s.cfg.Log.Warn("a result could not be saved as an artifact", "run_id", r.ID, "error", err)
		}
		return
	}
	if o.Artifacts == nil {
		o.Artifacts = map[string]string{}
	}
	o.Artifacts[mime] = artifactID
}

// add appends an output, as far as there is room.
func (r *run) add(k *kernel, o Output) {
	size := len(o.Text)
	for mime, raw := range o.Data {
		size += len(mime) + len(raw)
	}
	r.mu.Lock()
	switch last := len(r.Outputs) - 1; {
	case r.size+size > MaxOutputs && o.Type == "result" || len(r.Outputs) >= 2000:
		r.Truncated = true
	case r.size+size > MaxOutputs:
		r.Truncated = true
		if room := MaxOutputs - r.size; room > 0 {
			r.Outputs = append(r.Outputs, Output{Type: o.Type, Text: strings.ToValidUTF8(o.Text[:room], "")})
			r.size = MaxOutputs
		}
	case o.Text != "" && last >= 0 && r.Outputs[last].Type == o.Type && len(r.Outputs[last].Text) < 16<<10:
		r.Outputs[last].Text += o.Text
		r.size += size
	default:
		r.Outputs = append(r.Outputs, o)
		r.size += size
	}
	now := k.s.now()
	announce := now-r.announced >= announceEvery.Milliseconds()
	if announce {
		r.announced = now
	}
	r.mu.Unlock()
	r.tell(Event{Output: &o})
	if announce {
		k.s.changed(k.s.life, r.TeamID, r.WorkspaceID, r.ID)
	}
}

// tell passes an event to who streams, without waiting: a slow client must not stop a kernel that others use.
func (r *run) tell(e Event) {
	select {
	case r.events <- e:
	default:
	}
}

// mask hides secrets in what the run prints.
func (r *run) mask(m *redact.Masker) {
	r.maskers = map[guest.KernelMessageType]*redact.Masker{guest.KernelStdout: m.Again(), guest.KernelStderr: m.Again()}
}

// flush adds what was held back as the possible beginning of a secret, when the run ends.
func (r *run) flush() {
	r.hearMu.Lock()
	defer r.hearMu.Unlock()
	for kind, m := range r.maskers {
		if rest := strings.ToValidUTF8(string(m.Flush()), "\uFFFD"); rest != "" {
			r.mu.Lock()
			if r.size+len(rest) <= MaxOutputs {
				r.Outputs, r.size = append(r.Outputs, Output{Type: string(kind), Text: rest}), r.size+len(rest)
			}
			r.mu.Unlock()
			r.tell(Event{Output: &Output{Type: string(kind), Text: rest}})
		}
	}
}
