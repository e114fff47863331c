package store

import (
	"context"

	"github.com/parawork/parawork/accounts"
)

const ceremonyColumns = `id_hash, kind, COALESCE(user_id, ''), sealed, failures, created_at, expires_at`

// InsertCeremony stores what a sign-in has begun.
func (s *Accounts) InsertCeremony(ctx context.Context, c accounts.Ceremony) error {
	_, err := s.db.Exec(ctx, `INSERT INTO ceremonies (id_hash, kind, user_id, sealed, failures, created_at, expires_at) VALUES (?, ?, NULLIF(?, ''), ?, 0, ?, ?)`,
		c.Hash, c.Kind, c.UserID, c.Sealed, c.CreatedAt, c.ExpiresAt)
	return err
}

// Ceremony returns one, ended or not.
func (s *Accounts) Ceremony(ctx context.Context, hash string) (c accounts.Ceremony, err error) {
	err = s.db.QueryRow(ctx, `SELECT `+ceremonyColumns+` FROM ceremonies WHERE id_hash = ?`, hash).
		Scan(&c.Hash, &c.Kind, &c.UserID, &c.Sealed, &c.Failures, &c.CreatedAt, &c.ExpiresAt)
	return c, err
}

// UpdateCeremony replaces what a ceremony holds.
func (s *Accounts) UpdateCeremony(ctx context.Context, hash, sealed string) error {
	return changed(s.db.Exec(ctx, `UPDATE ceremonies SET sealed = ? WHERE id_hash = ?`, sealed, hash))
}

// FailCeremony counts a failure.
func (s *Accounts) FailCeremony(ctx context.Context, hash string) (n int, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		return s.db.QueryRow(ctx, `UPDATE ceremonies SET failures = failures + 1 WHERE id_hash = ? RETURNING failures`, hash).Scan(&n)
	})
	return n, err
}

// DeleteCeremony removes one.
func (s *Accounts) DeleteCeremony(ctx context.Context, hash string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM ceremonies WHERE id_hash = ?`, hash))
}

// DeleteLoginsUnderWay removes what a user's sign-ins have begun.
func (s *Accounts) DeleteLoginsUnderWay(ctx context.Context, userID string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM ceremonies WHERE user_id = ?`, userID)
	return err
}

// DropCeremonies removes those that have ended.
func (s *Accounts) DropCeremonies(ctx context.Context, now int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM ceremonies WHERE expires_at <= ?`, now)
	return err
}

// Factors says which further proofs a user has.
func (s *Accounts) Factors(ctx context.Context, userID string) (f accounts.Factors, err error) {
	err = s.db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM totp WHERE user_id = ? AND confirmed_at > 0),
		(SELECT COUNT(*) FROM passkeys WHERE user_id = ?), (SELECT COUNT(*) FROM recovery_codes WHERE user_id = ? AND used_at = 0)`, userID, userID, userID).
		Scan(&f.TOTP, &f.Passkeys, &f.RecoveryCodes)
	return f, err
}

// PutTOTP replaces a user's authenticator app.
func (s *Accounts) PutTOTP(ctx context.Context, t accounts.TOTP) error {
	_, err := s.db.Exec(ctx, `INSERT INTO totp (user_id, sealed, last_step, created_at, confirmed_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (user_id) DO UPDATE SET sealed = excluded.sealed, last_step = excluded.last_step, created_at = excluded.created_at, confirmed_at = excluded.confirmed_at`,
		t.UserID, t.Sealed, t.LastStep, t.CreatedAt, t.ConfirmedAt)
	return err
}

// TOTP returns a user's authenticator app, confirmed or not.
func (s *Accounts) TOTP(ctx context.Context, userID string) (t accounts.TOTP, err error) {
	err = s.db.QueryRow(ctx, `SELECT user_id, sealed, last_step, created_at, confirmed_at FROM totp WHERE user_id = ?`, userID).
		Scan(&t.UserID, &t.Sealed, &t.LastStep, &t.CreatedAt, &t.ConfirmedAt)
	return t, err
}

// TakeStep notes that the code of a step was taken.
func (s *Accounts) TakeStep(ctx context.Context, userID string, step int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `UPDATE totp SET last_step = ? WHERE user_id = ? AND last_step < ?`, step, userID, step))
}

// ConfirmTOTP makes a user's authenticator app count.
func (s *Accounts) ConfirmTOTP(ctx context.Context, userID string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE totp SET confirmed_at = ? WHERE user_id = ? AND confirmed_at = 0`, at, userID))
}

// DeleteTOTP forgets a user's authenticator app.
func (s *Accounts) DeleteTOTP(ctx context.Context, userID string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM totp WHERE user_id = ?`, userID)
	return err
}

// PutRecoveryCodes replaces a user's recovery codes.
func (s *Accounts) PutRecoveryCodes(ctx context.Context, userID string, hashes []string) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `DELETE FROM recovery_codes WHERE user_id = ?`, userID); err != nil {
			return err
		}
		for _, h := range hashes {
			if _, err := s.db.Exec(ctx, `INSERT INTO recovery_codes (user_id, code_hash, used_at) VALUES (?, ?, 0)`, userID, h); err != nil {
				return err
			}
		}
		return nil
	})
}

// UseRecoveryCode takes a code; false when there is none to take.
func (s *Accounts) UseRecoveryCode(ctx context.Context, userID, hash string, at int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `UPDATE recovery_codes SET used_at = ? WHERE user_id = ? AND code_hash = ? AND used_at = 0`, at, userID, hash))
}

const passkeyColumns = `id, user_id, name, credential_id, credential, created_at, last_used_at`

// InsertPasskey stores a passkey; false when its credential is known already.
func (s *Accounts) InsertPasskey(ctx context.Context, k accounts.Passkey) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO passkeys (`+passkeyColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (credential_id) DO NOTHING`,
		k.ID, k.UserID, k.Name, k.CredentialID, k.Credential, k.CreatedAt, k.LastUsedAt))
}

// Passkeys returns a user's passkeys, the oldest first.
func (s *Accounts) Passkeys(ctx context.Context, userID string) ([]accounts.Passkey, error) {
	rows, err := s.db.Query(ctx, `SELECT `+passkeyColumns+` FROM passkeys WHERE user_id = ? ORDER BY created_at, id`, userID)
	return Collect(rows, err, func(r Scanner) (k accounts.Passkey, err error) {
		err = r.Scan(&k.ID, &k.UserID, &k.Name, &k.CredentialID, &k.Credential, &k.CreatedAt, &k.LastUsedAt)
		return k, err
	})
}

// UsePasskey writes what a passkey's last use changed.
func (s *Accounts) UsePasskey(ctx context.Context, id, credential string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE passkeys SET credential = ?, last_used_at = ? WHERE id = ?`, credential, at, id))
}

// RenamePasskey changes what a passkey is called.
func (s *Accounts) RenamePasskey(ctx context.Context, userID, id, name string) error {
	return changed(s.db.Exec(ctx, `UPDATE passkeys SET name = ? WHERE id = ? AND user_id = ?`, name, id, userID))
}

// DeletePasskey forgets one of a user's passkeys.
func (s *Accounts) DeletePasskey(ctx context.Context, userID, id string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM passkeys WHERE id = ? AND user_id = ?`, id, userID))
}

// CountIdentities counts the accounts elsewhere that a user may sign in with.
func (s *Accounts) CountIdentities(ctx context.Context, userID string) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM identities WHERE user_id = ?`, userID).Scan(&n)
	return n, err
}

// PasswordLink returns whose link this is and when it ends.
func (s *Accounts) PasswordLink(ctx context.Context, tokenHash string) (l accounts.PasswordLink, err error) {
	err = s.db.QueryRow(ctx, `SELECT user_id, created_by = '', expires_at FROM password_links WHERE token_hash = ?`, tokenHash).Scan(&l.UserID, &l.ByMail, &l.ExpiresAt)
	return l, err
}

// DeletePasswordLinks ends a user's links to set a password.
func (s *Accounts) DeletePasswordLinks(ctx context.Context, userID string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM password_links WHERE user_id = ?`, userID)
	return err
}

// DropPasswordLinks removes those that have ended.
func (s *Accounts) DropPasswordLinks(ctx context.Context, now int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM password_links WHERE expires_at <= ?`, now)
	return err
}
