package accounts

// PasswordLink is a link by which a user chooses a new password.
type PasswordLink struct {
	UserID    string
	ByMail    bool  // it went to the user's address and was shown to nobody else
	ExpiresAt int64 // ms UTC
}
