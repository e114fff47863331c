package executors

// Owned is an optional ability of an Executor that belongs to somebody, such as a member's machine.
type Owned interface {
	Owner() Owner
}

// Owner says whom an executor belongs to. The zero value is the server itself.
type Owner struct {
	TeamID string
	UserID string
	Name   string // the user's name, for display
	Shared bool   // all members of the team may use it
}

// OwnerOf returns the owner of an executor.
func OwnerOf(e Executor) Owner {
	if o, ok := e.(Owned); ok {
		return o.Owner()
	}
	return Owner{}
}

// Admits reports whether the user may run work in the executor.
func (o Owner) Admits(userID string) bool { return o.Shared || o.UserID == userID }
