package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
)

// Audit keeps who did what.
type Audit struct {
	*Instance
	db *DB
}

var _ audit.Store = (*Audit)(nil)

// NewAudit returns the storage of the audit in db.
func NewAudit(db *DB) *Audit { return &Audit{NewInstance(db), db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *Audit) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

// InTx reports whether ctx is that of a transaction of this database.
func (s *Audit) InTx(ctx context.Context) bool { return s.db.current(ctx) != nil }

const auditColumns = `chain, seq, id, at, actor_kind, actor_id, actor_name, credential, ip, action, target_kind, target_id, target_name, result, code, request_id, data, seal`

// InsertAudit adds a row.
func (s *Audit) InsertAudit(ctx context.Context, r audit.Row) error {
	_, err := s.db.Exec(ctx, `INSERT INTO audit (`+auditColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Chain, r.Seq, r.ID, r.At, r.Kind, r.ActorID, r.ActorName, r.Credential, r.IP, r.Action, r.TargetKind, r.TargetID, r.TargetName,
		string(r.Result), r.Code, r.RequestID, r.DataText(), r.Seal)
	return err
}

// AuditTail returns the number and the seal of a chain's last row; 0 and "" when it has none.
func (s *Audit) AuditTail(ctx context.Context, chain string) (seq int64, seal string, err error) {
	err = s.db.QueryRow(ctx, `SELECT seq, seal FROM audit WHERE chain = ? ORDER BY seq DESC LIMIT 1`, chain).Scan(&seq, &seal)
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return seq, seal, err
}

// AuditSeal returns the seal of one row.
func (s *Audit) AuditSeal(ctx context.Context, chain string, seq int64) (seal string, err error) {
	err = s.db.QueryRow(ctx, `SELECT seal FROM audit WHERE chain = ? AND seq = ?`, chain, seq).Scan(&seal)
	return seal, err
}

// AuditChains returns the chains that have rows.
func (s *Audit) AuditChains(ctx context.Context) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT chain FROM audit GROUP BY chain ORDER BY chain`)
	return Collect(rows, err, func(r Scanner) (string, error) {
		var c string
		return c, r.Scan(&c)
	})
}

// AuditBefore returns the last of the rows at a chain's beginning that are all older than a time.
func (s *Audit) AuditBefore(ctx context.Context, chain string, at int64) (seq int64, seal string, err error) {
	err = s.db.QueryRow(ctx, `SELECT seq, seal FROM audit WHERE chain = ?
		AND seq < COALESCE((SELECT MIN(seq) FROM audit WHERE chain = ? AND at >= ?), 9223372036854775807) ORDER BY seq DESC LIMIT 1`, chain, chain, at).Scan(&seq, &seal)
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return seq, seal, err
}

// DropAudit removes a chain's rows up to one.
func (s *Audit) DropAudit(ctx context.Context, chain string, through int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM audit WHERE chain = ? AND seq <= ?`, chain, through)
	return err
}

// AuditRows returns the rows that q asks for.
func (s *Audit) AuditRows(ctx context.Context, q audit.Query) ([]audit.Row, error) {
	where, args := []string{"chain = ?"}, []any{q.Chain}
	and := func(cond string, values ...any) { where, args = append(where, cond), append(args, values...) }
	if q.From != 0 {
		and("at >= ?", q.From)
	}
	if q.To != 0 {
		and("at < ?", q.To)
	}
	if q.Actor != "" {
		and(`(actor_id = ? OR LOWER(actor_name) LIKE ? ESCAPE '\')`, q.Actor, containing(q.Actor))
	}
	if q.Action != "" {
		and(`(action = ? OR action LIKE ? ESCAPE '\')`, q.Action, literal(q.Action)+".%")
	}
	if q.Target != "" {
		and(`(target_id = ? OR target_kind = ? OR LOWER(target_name) LIKE ? ESCAPE '\')`, q.Target, q.Target, containing(q.Target))
	}
	if q.Result != "" {
		and("result = ?", string(q.Result))
	}
	if q.ID != "" {
		and("id = ?", q.ID)
	}
	order := "DESC"
	if q.Oldest {
		order = "ASC"
	}
	switch {
	case q.After != 0 && q.Oldest:
		and("seq > ?", q.After)
	case q.After != 0:
		and("seq < ?", q.After)
	}
	rows, err := s.db.Query(ctx, `SELECT `+auditColumns+` FROM audit WHERE `+strings.Join(where, " AND ")+` ORDER BY seq `+order+` LIMIT ?`, append(args, q.Limit)...)
	return Collect(rows, err, scanAudit)
}

func scanAudit(r Scanner) (audit.Row, error) {
	var a audit.Row
	var data string
	if err := r.Scan(&a.Chain, &a.Seq, &a.ID, &a.At, &a.Kind, &a.ActorID, &a.ActorName, &a.Credential, &a.IP, &a.Action, &a.TargetKind, &a.TargetID, &a.TargetName,
		&a.Result, &a.Code, &a.RequestID, &data, &a.Seal); err != nil {
		return a, err
	}
	// A row that somebody spoiled by hand is still to be read: that it was changed is what its seal says.
	if err := json.Unmarshal([]byte(data), &a.Data); err != nil {
		a.Data = map[string]string{"unreadable": fmt.Sprint(err)}
	}
	return a, nil
}

// literal writes text so that LIKE finds it as it stands.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}

// containing is a LIKE pattern for text that holds s, in lower case.
func containing(s string) string { return "%" + literal(strings.ToLower(s)) + "%" }
