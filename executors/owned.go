package executors

// Owned is an optional ability of an Executor that is somebody's own, as a member's machine is.
type Owned interface {
	Owner() Owner
}

// Owner says whose a place is. The zero value is the server's own.
type Owner struct {
	TeamID string
	UserID string
	Name   string // of the user, for people
	Shared bool   // everybody of the team may use it
}

// OwnerOf says whose an executor is.
func OwnerOf(e Executor) Owner {
	if o, ok := e.(Owned); ok {
		return o.Owner()
	}
	return Owner{}
}

// Admits reports whether the user may have work done in the place.
func (o Owner) Admits(userID string) bool { return o.Shared || o.UserID == userID }
