package apicases

// Case is one create, or one create and update, of an object.
type Case struct {
	// Name says what is tried.
	Name string
	Base Base
	// Object are the merge patches that make the object from the base.
	Object []string
	// Update are the merge patches that change the object after it was created.
	// Empty means the case is about the creation.
	Update []string
	// Refused is a part of the error of the last step. Empty means it is accepted.
	Refused string
}

// All are the cases of both kinds: those of Ranges, and those of the rules.
func All() []Case {
	var all []Case
	for _, r := range Ranges {
		all = append(all, r.Cases()...)
	}
	all = append(all, flowCases...)
	all = append(all, poolCases...)
	for _, holder := range []templateHolder{producerTemplate, poolTemplate} {
		for _, c := range templateCases {
			all = append(all, c.in(holder))
		}
	}
	return all
}
