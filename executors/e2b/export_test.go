package e2b

// TemplateGuestAt has templates hold the guest elsewhere, with its hash behind prefix.
func TemplateGuestAt(prefix string) { templateGuest = prefix }
