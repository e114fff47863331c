package workspaces

import (
	"time"
)

// PutAwayTime bounds an archive, a deletion or a restore, which go on when their caller has left.
const PutAwayTime = 30 * time.Minute
