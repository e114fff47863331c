package store

import (
	"context"
	"database/sql"

	"github.com/parawork/parawork/notify/mail"
)

// Mails keeps the mails that are to be sent.
type Mails struct{ db *DB }

var _ mail.Store = (*Mails)(nil)

// NewMails returns the storage of mails in db.
func NewMails(db *DB) *Mails { return &Mails{db} }

// InsertMail stores a mail.
func (s *Mails) InsertMail(ctx context.Context, m mail.Mail) error {
	_, err := s.db.Exec(ctx, `/* every team: the instance sends them */ INSERT INTO mails (id, team_id, kind, recipient, sealed, state, next_at, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		m.ID, sql.NullString{String: m.TeamID, Valid: m.TeamID != ""}, m.Kind, m.To, m.Sealed, string(m.State), m.NextAt, m.CreatedAt)
	return err
}

// DueMails returns what is to be sent now, the longest due first, and when the next is due.
func (s *Mails) DueMails(ctx context.Context, now int64, limit int) ([]mail.Mail, int64, error) {
	rows, err := s.db.Query(ctx, `/* every team: the instance sends them */ SELECT id, COALESCE(team_id, ''), kind, recipient, sealed, state, attempts, next_at, error, created_at, done_at FROM mails
		WHERE state = 'pending' AND next_at <= ? AND claimed_until <= ? ORDER BY next_at, id LIMIT ?`, now, now, limit)
	due, err := Collect(rows, err, func(r Scanner) (m mail.Mail, err error) {
		err = r.Scan(&m.ID, &m.TeamID, &m.Kind, &m.To, &m.Sealed, &m.State, &m.Attempts, &m.NextAt, &m.Error, &m.CreatedAt, &m.DoneAt)
		return m, err
	})
	if err != nil || len(due) > 0 {
		return due, 0, err
	}
	var next int64
	err = s.db.QueryRow(ctx, `/* every team: the instance sends them */ SELECT COALESCE(MIN(CASE WHEN claimed_until > next_at THEN claimed_until ELSE next_at END), 0) FROM mails WHERE state = 'pending'`).Scan(&next)
	return nil, next, err
}

// ClaimMail takes a mail for the caller alone until a time; false when somebody else has it.
func (s *Mails) ClaimMail(ctx context.Context, id string, now, until int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `/* every team: the instance sends them */ UPDATE mails SET claimed_until = ? WHERE id = ? AND state = 'pending' AND claimed_until <= ?`, until, id, now))
}

// UpdateMail writes how a mail went, and gives it free.
func (s *Mails) UpdateMail(ctx context.Context, m mail.Mail) error {
	_, err := s.db.Exec(ctx, `/* every team: the instance sends them */ UPDATE mails SET sealed = ?, state = ?, attempts = ?, next_at = ?, error = ?, done_at = ?, claimed_until = 0 WHERE id = ?`,
		m.Sealed, string(m.State), m.Attempts, m.NextAt, m.Error, m.DoneAt, m.ID)
	return err
}

// MailCounts counts the pending mails and those given up since a time, and returns the newest error since then.
func (s *Mails) MailCounts(ctx context.Context, since int64) (pending, givenUp int, lastError string, err error) {
	err = s.db.QueryRow(ctx, `/* every team: the instance sends them */ SELECT COALESCE(SUM(CASE WHEN state = 'pending' THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN state = 'given_up' AND done_at >= ? THEN 1 ELSE 0 END), 0)
		FROM mails`, since).Scan(&pending, &givenUp)
	if err != nil {
		return 0, 0, "", err
	}
	rows, err := s.db.Query(ctx, `/* every team: the instance sends them */ SELECT error FROM mails WHERE error <> '' AND created_at >= ? ORDER BY created_at DESC, id DESC LIMIT 1`, since)
	errs, err := Collect(rows, err, func(r Scanner) (e string, err error) { err = r.Scan(&e); return e, err })
	if len(errs) > 0 {
		lastError = errs[0]
	}
	return pending, givenUp, lastError, err
}

// DropMails forgets mails that were done before a time.
func (s *Mails) DropMails(ctx context.Context, before int64) error {
	_, err := s.db.Exec(ctx, `/* every team: the instance sends them */ DELETE FROM mails WHERE state <> 'pending' AND done_at < ?`, before)
	return err
}
