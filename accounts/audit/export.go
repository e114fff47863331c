package audit

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Format is how an export is written.
type Format string

// The formats.
const (
	CSV  Format = "csv"
	JSON Format = "json"
)

// exported is one row in an export in JSON: in the shape of the API, with the seal of the row before, so that each can be checked
// by itself.
type exported struct {
	ID         string            `json:"id"`
	Seq        int64             `json:"seq"`
	At         int64             `json:"at"`
	Actor      party             `json:"actor"`
	Credential string            `json:"credential"`
	IP         string            `json:"ip"`
	Action     string            `json:"action"`
	Target     party             `json:"target"`
	Result     Result            `json:"result"`
	Code       string            `json:"code"`
	RequestID  string            `json:"request_id"`
	Data       map[string]string `json:"data"`
	Seal       string            `json:"seal"`
	Previous   *string           `json:"previous_seal"` // null when it is not known
}

type party struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (r Row) exported(previous *string) exported {
	return exported{ID: r.ID, Seq: r.Seq, At: r.At, Actor: party{r.Kind, r.ActorID, r.ActorName}, Credential: r.Credential, IP: r.IP, Action: r.Action,
		Target: party{r.TargetKind, r.TargetID, r.TargetName}, Result: r.Result, Code: r.Code, RequestID: r.RequestID, Data: r.Data, Seal: r.Seal, Previous: previous}
}

func (e exported) row(chain string) Row {
	return Row{Chain: chain, Seq: e.Seq, ID: e.ID, At: e.At,
		Source: Source{Kind: e.Actor.Kind, ActorID: e.Actor.ID, ActorName: e.Actor.Name, Credential: e.Credential, IP: e.IP, RequestID: e.RequestID},
		Action: e.Action, TargetKind: e.Target.Kind, TargetID: e.Target.ID, TargetName: e.Target.Name, Result: e.Result, Code: e.Code, Data: e.Data, Seal: e.Seal}
}

// Export writes all that q asks for, oldest first, a page at a time. Nothing is written before the first page was read.
func (l *Log) Export(ctx context.Context, w io.Writer, q Query, f Format) error {
	if err := q.check(); err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	var err error
	switch f {
	case CSV:
		err = l.exportCSV(ctx, out, q)
	case JSON:
		err = l.exportJSON(ctx, out, q)
	default:
		return fault.New(fault.Invalid, "invalid_parameter", "format is csv or json.").With("field", "format")
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

func (l *Log) exportJSON(ctx context.Context, w *bufio.Writer, q Query) error {
	chain, err := json.Marshal(q.Chain)
	if err != nil {
		return err
	}
	var last Row
	err = l.Each(ctx, q, func(rows []Row) error {
		for _, r := range rows {
			previous, err := l.previous(ctx, r, last)
			if err != nil {
				return err
			}
			b, err := json.Marshal(r.exported(previous))
			if err != nil {
				return err
			}
			between := ",\n"
			if last.Seq == 0 {
				between = fmt.Sprintf("{\"format\":%q,\"chain\":%s,\"exported_at\":%d,\"items\":[\n", form, chain, l.cfg.Now().UnixMilli())
			}
			if _, err := w.WriteString(between); err != nil {
				return err
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			last = r
		}
		return nil
	})
	if err != nil {
		return err
	}
	end := "\n]}\n"
	if last.Seq == 0 {
		end = fmt.Sprintf("{\"format\":%q,\"chain\":%s,\"exported_at\":%d,\"items\":[]}\n", form, chain, l.cfg.Now().UnixMilli())
	}
	_, err = w.WriteString(end)
	return err
}

// previous returns the seal before a row; nil when it is no longer known.
func (l *Log) previous(ctx context.Context, r, last Row) (*string, error) {
	switch r.Seq {
	case 1:
		return new(string), nil
	case last.Seq + 1:
		return &last.Seal, nil
	}
	seal, err := l.cfg.Store.AuditSeal(ctx, r.Chain, r.Seq-1)
	if fault.Is(err, fault.NotFound) {
		return l.sealBefore(ctx, r.Chain, r.Seq)
	}
	return &seal, err
}

var columns = []string{"time", "seq", "actor_kind", "actor_id", "actor", "credential", "ip", "action", "target_kind", "target_id", "target", "result", "code",
	"request_id", "data", "id", "seal"}

func (l *Log) exportCSV(ctx context.Context, w *bufio.Writer, q Query) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	begun := false
	head := func() error {
		begun = true
		return out.Write(columns)
	}
	err := l.Each(ctx, q, func(rows []Row) error {
		if !begun {
			if err := head(); err != nil {
				return err
			}
		}
		for _, r := range rows {
			line := []string{r.Time().Format("2006-01-02T15:04:05.000Z"), strconv.FormatInt(r.Seq, 10), r.Kind, r.ActorID, r.ActorName, r.Credential, r.IP, r.Action, r.TargetKind,
				r.TargetID, r.TargetName, string(r.Result), r.Code, r.RequestID, r.DataText(), r.ID, r.Seal}
			for i := range line {
				line[i] = noFormula(line[i])
			}
			if err := out.Write(line); err != nil {
				return err
			}
		}
		out.Flush()
		return out.Error()
	})
	if err == nil && !begun {
		err = head()
	}
	out.Flush()
	return errors.Join(err, out.Error())
}

// noFormula marks text that a spreadsheet would run as a formula: it looks past spaces and quotes, and takes the wide forms of the
// signs for signs (https://owasp.org/www-community/attacks/CSV_Injection).
func noFormula(s string) string {
	t := strings.TrimLeft(s, " \u00A0\u3000\"'")
	if t != "" && strings.ContainsRune("=+-@\t\r\n|%＝＋－＠", []rune(t)[0]) {
		return "'" + s
	}
	return s
}

// VerifyExport checks an export in JSON: each entry's seal, and that the log still has it as it was. It reads a bounded piece at a
// time.
func (l *Log) VerifyExport(ctx context.Context, in io.Reader) (Report, error) {
	keys, err := l.readKeys(ctx)
	if err != nil {
		return Report{}, err
	}
	odd := fault.New(fault.Invalid, "not_an_export", "This is not an export of the audit in JSON, or it is cut off.")
	d := json.NewDecoder(in)
	var r Report
	if err := intoItems(d, &r.Chain); err != nil {
		return r, odd
	}
	first, err := l.cfg.Store.AuditRows(ctx, Query{Chain: r.Chain, Oldest: true, Limit: 1})
	if err != nil {
		return r, err
	}
	if r.Unproven, err = l.lostThrough(ctx, r.Chain); err != nil {
		return r, err
	}
	for d.More() {
		var e exported
		if err := d.Decode(&e); err != nil {
			return r, odd
		}
		row := e.row(r.Chain)
		if r.Entries++; r.First == 0 {
			r.First = row.Seq
		}
		r.Last = row.Seq
		if e.Previous == nil {
			if r.Entries > 1 {
				r.found(row.Seq, "the seal before it is missing: it cannot be checked")
			}
		} else if row.Seq > r.Unproven && row.fits(keys, 0, *e.Previous) < 0 {
			r.found(row.Seq, "the entry was changed, or was not made by this Parawork")
			continue
		}
		if len(first) == 1 && row.Seq < first[0].Seq {
			continue // dropped for its age meanwhile
		}
		if seal, err := l.cfg.Store.AuditSeal(ctx, r.Chain, row.Seq); fault.Is(err, fault.NotFound) {
			r.found(row.Seq, "the audit does not have this entry any more")
		} else if err != nil {
			return r, err
		} else if seal != row.Seal {
			r.found(row.Seq, "the audit has another entry in this one's place")
		}
	}
	if _, err := d.Token(); err != nil { // the end of the list
		return r, odd
	}
	return r, nil
}

// intoItems reads up to the first entry and sets the chain.
func intoItems(d *json.Decoder, chain *string) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("no object")
	}
	known := ""
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		switch name {
		case "format":
			err = d.Decode(&known)
		case "chain":
			err = d.Decode(chain)
		case "items":
			if t, err := d.Token(); err != nil || t != json.Delim('[') || known != form || *chain == "" {
				return errors.New("no entries")
			}
			return nil
		default:
			var skipped json.RawMessage
			err = d.Decode(&skipped)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("no entries")
}

// FileName is what an export is called.
func FileName(chain string, f Format, at time.Time) string {
	return "parawork-audit-" + chain + "-" + at.UTC().Format("20060102") + "." + string(f)
}
