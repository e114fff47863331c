package accounts

// HashOf is how a secret is kept.
func HashOf(secret string) string { return hashOf(secret) }
