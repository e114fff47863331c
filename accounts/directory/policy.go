package directory

import (
	"github.com/parawork/parawork/accounts"
)

// Can is Can, for those who know the Service through an interface of their own.
func (s *Service) Can(actor accounts.Actor, action accounts.Action, o accounts.Object) error {
	return accounts.Can(actor, action, o)
}
