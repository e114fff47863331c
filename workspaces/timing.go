package workspaces

import (
	"time"
)

// PutAwayTime bounds an archive, a deletion or a restore, each of which continues after its caller has left.
const PutAwayTime = 30 * time.Minute
