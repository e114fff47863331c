package accounts

// Holder is whom something belongs to: a user or a team, never both.
type Holder struct{ UserID, TeamID string }

// OfUser and OfTeam make owners.
func OfUser(userID string) Holder { return Holder{UserID: userID} }

// OfTeam is the owner of what a team shares.
func OfTeam(teamID string) Holder { return Holder{TeamID: teamID} }

// Secret is the record of a value that is stored sealed. The API never returns the value itself.
type Secret struct {
	ID string
	Holder
	Name       string // what it is for
	KeyVersion int    // of the key it is sealed with
	LastFour   string
	CreatedBy  string
	CreatedAt  int64
	UpdatedAt  int64
}
