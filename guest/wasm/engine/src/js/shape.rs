//! What a value is sent as.

use core::ffi::c_int;

use rquickjs_sys as q;

use super::handles::with_handles;
use super::{Js, Key, Text, Value, context};

/// What a value is at first sight.
pub(crate) enum Kind {
    Undefined,
    Null,
    Bool(bool),
    Int(i32),
    Float(f64),
    BigInt,
    String,
    Symbol,
    Object,
}

/// Which objects are sent as what.
pub(crate) enum Shape {
    Plain,
    Array,
    Bytes,
    Typed(u32),
    Date,
    Map,
    Set,
    Error,
    Function,
    Promise,
    /// An object of the engine that keeps something we cannot see.
    Opaque,
}

impl Value {
    pub(crate) fn kind(&self) -> Kind {
        // SAFETY: the tag says which field the value holds, and that one is read.
        unsafe {
            match q::JS_VALUE_GET_TAG(self.0) {
                q::JS_TAG_INT => Kind::Int(q::JS_VALUE_GET_INT(self.0)),
                q::JS_TAG_BOOL => Kind::Bool(q::JS_VALUE_GET_BOOL(self.0)),
                q::JS_TAG_NULL => Kind::Null,
                q::JS_TAG_STRING | q::JS_TAG_STRING_ROPE => Kind::String,
                q::JS_TAG_OBJECT => Kind::Object,
                q::JS_TAG_SYMBOL => Kind::Symbol,
                q::JS_TAG_BIG_INT | q::JS_TAG_SHORT_BIG_INT => Kind::BigInt,
                tag if q::JS_TAG_IS_FLOAT64(tag) => Kind::Float(q::JS_VALUE_GET_FLOAT64(self.0)),
                _ => Kind::Undefined,
            }
        }
    }

    /// What an object is sent as.
    pub(crate) fn shape(&self) -> Shape {
        // SAFETY: the context; alive.
        unsafe {
            let class = q::JS_GetClassID(self.0);
            if class == with_handles(|h| h.plain_class) {
                return Shape::Plain;
            }
            if q::JS_IsArray(self.0) {
                return Shape::Array;
            }
            let typed = q::JS_GetTypedArrayType(self.0);
            match typed {
                _ if typed == q::JSTypedArrayEnum_JS_TYPED_ARRAY_UINT8 as c_int => Shape::Bytes,
                0.. => Shape::Typed(typed as u32),
                _ if q::JS_IsArrayBuffer(self.0) => Shape::Bytes,
                _ if q::JS_IsDate(self.0) => Shape::Date,
                _ if q::JS_IsMap(self.0) => Shape::Map,
                _ if q::JS_IsSet(self.0) => Shape::Set,
                _ if q::JS_IsError(self.0) => Shape::Error,
                _ if q::JS_IsFunction(context(), self.0) => Shape::Function,
                _ if q::JS_IsPromise(self.0) => Shape::Promise,
                _ if q::JS_IsProxy(self.0) => Shape::Plain,
                _ => Shape::Opaque,
            }
        }
    }

    /// The name of an object's class, such as `WeakMap`.
    pub(crate) fn class_name(&self) -> Js<Text> {
        Text::of_name(Key::of_class(self).name())
    }
}
