// Prints every field of kube-proxy's configuration type, a line each: its JSON path, a tab, its type. By reflection, so
// that a field which upstream adds is seen. What reads itself from JSON (durations, quantities) has no fields of its own.
package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/kube-proxy/config/v1alpha1"
)

var readsItself = reflect.TypeFor[json.Unmarshaler]()

// fieldName is what encoding/json calls the field; embedded is true where its members belong to what it stands in.
func fieldName(field reflect.StructField) (name string, embedded bool) {
	name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
	if name == "" && field.Anonymous {
		return "", true
	}
	if name == "" {
		name = field.Name
	}
	return name, false
}

func walkStruct(path string, structure reflect.Type) {
	for i := range structure.NumField() {
		field := structure.Field(i)
		name, embedded := fieldName(field)
		switch {
		case !field.IsExported() || name == "-":
		case embedded:
			walk(path, field.Type)
		case path == "":
			walk(name, field.Type)
		default:
			walk(path+"."+name, field.Type)
		}
	}
}

func walk(path string, kind reflect.Type) {
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	leaf := reflect.PointerTo(kind).Implements(readsItself)
	switch {
	case leaf:
		fmt.Printf("%s\t%s\n", path, kind.Name())
	case kind.Kind() == reflect.Struct:
		walkStruct(path, kind)
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct:
		walkStruct(path+"[]", kind.Elem())
	case kind.Kind() == reflect.Slice:
		fmt.Printf("%s\t[]%s\n", path, kind.Elem().Kind())
	case kind.Kind() == reflect.Map:
		fmt.Printf("%s\tmap[%s]%s\n", path, kind.Key().Kind(), kind.Elem().Kind())
	default:
		fmt.Printf("%s\t%s\n", path, kind.Kind())
	}
}

func main() { walkStruct("", reflect.TypeFor[v1alpha1.KubeProxyConfiguration]()) }
