// SPDX-License-Identifier: Apache-2.0
// Prints every field of kube-proxy's configuration type, one per line: its JSON path, a tab, its type. It uses reflection, so
// that the list contains fields that upstream adds. Types with their own JSON decoder (durations, quantities) are leaves.
package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/kube-proxy/config/v1alpha1"
)

var jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()

// fieldName returns the name of the field in JSON; embedded is true if its members belong to the enclosing object.
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
	leaf := reflect.PointerTo(kind).Implements(jsonUnmarshaler)
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
