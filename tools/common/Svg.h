// SPDX-License-Identifier: Apache-2.0
// SvgCanvas: a drawing, piece by piece, as the text of an SVG file that needs nothing from outside.
// The one thing to know: numbers are rounded as they are written, so the same drawing is the same bytes everywhere.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/Format.h"
#include "tools/common/Fixed.h"

namespace hpu::tools {

/// For text and attributes of XML and HTML; what XML 1.0 cannot hold is replaced.
inline std::string escapedXml(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return out;
}

class SvgCanvas {
 public:
  double height = 0;  ///< What is drawn so far; the caller's to move on.

  void text(double x, double y, std::string_view words, std::string_view style = "") {
    body_ += base::strCat("<text x=\"", fixed(x, 1), "\" y=\"", fixed(y, 1), "\"", style.empty() ? "" : " ", style, ">",
                          escapedXml(words), "</text>\n");
  }
  /// `words` are shown where the mouse rests on it.
  void rect(double x, double y, double width, double height, std::string_view fill, std::string_view words = "") {
    body_ += base::strCat("<rect x=\"", fixed(x, 2), "\" y=\"", fixed(y, 1), "\" width=\"",
                          fixed(std::max(width, 0.3), 2), "\" height=\"", fixed(height, 1), "\" fill=\"", fill, "\"");
    body_ += words.empty() ? std::string("/>\n") : base::strCat("><title>", escapedXml(words), "</title></rect>\n");
  }
  void line(double x1, double y1, double x2, double y2, std::string_view stroke) {
    body_ += base::strCat("<line x1=\"", fixed(x1, 1), "\" y1=\"", fixed(y1, 1), "\" x2=\"", fixed(x2, 1), "\" y2=\"",
                          fixed(y2, 1), "\" stroke=\"", stroke, "\"/>\n");
  }
  void append(const SvgCanvas& other) { body_ += other.body_; }

  /// The file: what was drawn on white, in front of it `head` (elements of SVG).
  std::string document(double width, std::string_view head = "") const {
    const std::string w = fixed(width, 0), h = fixed(height + 16, 0);
    return base::strCat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w, "\" height=\"", h, "\" viewBox=\"0 0 ",
                        w, " ", h, "\" font-family=\"sans-serif\" font-size=\"10\">\n", head,
                        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n", body_, "</svg>\n");
  }

 private:
  std::string body_;
};

}  // namespace hpu::tools
